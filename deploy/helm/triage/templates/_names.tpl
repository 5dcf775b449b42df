{{/* Labels that select the pods. */}}
{{- define "triage.labels" -}}
app.kubernetes.io/name: {{ .Release.Name }}
{{- end }}

{{/* Labels of the pods. */}}
{{- define "triage.serverLabels" -}}
{{ include "triage.labels" . }}
app.kubernetes.io/component: server
{{- end }}

{{/* The image, by its digest if there is one. */}}
{{- define "triage.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}
