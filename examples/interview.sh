#!/usr/bin/env bash
# Leads an interview over HTTP: examples/interview.sh, beside `triage serve --model-base-path models --http-port 8501`.
set -eu
url=http://127.0.0.1:8501/v1

name() { jq -r --arg code "$1" '.entries[] | select(.code == $code).name' <<<"$vocabulary"; }
tell() { state=$(jq -c --arg list "$1" --arg code "$2" '.[$list] += [$code]' <<<"$state"); }
input() { read -rp "$1> " said || exit; }

post() {
  reply=$(curl -sS --fail-with-body "$url/interview" -H 'content-type: application/json' -d "$state") ||
    { echo "$reply" >&2; exit 1; }
}

# Puts a question to the patient, and adds what is said to the state.
put() {
  jq -r .question <<<"$1"
  mapfile -t one_of < <(jq -r '.one_of[]' <<<"$1")
  mapfile -t any_of < <(jq -r 'if .any_of == [] then .code else .any_of[] end' <<<"$1")
  if [ ${#one_of[@]} -gt 0 ]; then # age or sex: exactly one is present
    for place in "${!one_of[@]}"; do echo "  $((place + 1)) $(name "${one_of[place]}")"; done
    while input 'a number of the list, age=NUMBER, or nothing if not known'; do
      if [ -z "$said" ]; then tell not_to_ask "${any_of[0]}"
      elif [[ $said == *=* ]]; then tell present "$said"
      elif [[ $said =~ ^[1-9][0-9]*$ && -n ${one_of[said - 1]:-} ]]; then tell present "${one_of[said - 1]}"
      else continue; fi
      return
    done
  fi
  for code in "${any_of[@]}"; do # of several danger signs each has its own answer
    echo "  $(name "$code")"
    while input 'y, n, a number such as temperature=38.9, or nothing if not known'; do
      case $said in
        y) tell present "$code" ;;
        n) tell absent "$code" ;;
        *=*) tell present "$said" ;;
        '') tell not_to_ask "$code" ;;
        *) continue ;;
      esac
      break
    done
  done
}

vocabulary=$(curl -sS --fail "$url/vocabulary")
input 'Codes of the complaint, such as chest_pain'
state=$(jq -nc --arg codes "$said" '{present: ($codes | split(" ")), questions_asked: 0, defer_below: 0}')
opened=
while post && jq -e '.answer.next == "ask"' <<<"$reply" >/dev/null; do
  put "$(jq -c '.questions[0]' <<<"$reply")"
  if [ -z "$opened" ] || [ ${#one_of[@]} = 0 ]; then # age and sex are one question together
    state=$(jq -c '.questions_asked += 1' <<<"$state")
  fi
  [ ${#one_of[@]} = 0 ] || opened=yes
done
jq -r '.answer |
  (if .next == "hand_over" then "A person must look: \(.deferred). Until then:" else empty end),
  .best_triage,
  (.probabilities | to_entries[]
    | "  \(.key): appropriate \(.value.appropriate * 100 | round)%, safe \(.value.safe * 100 | round)%"),
  (.fired_rules[] | "Rule \(.rule_id): \(.reason)")' <<<"$reply"
