from schemas import features


def names(*chosen):
    return [getattr(features, name) for name in chosen]


def test_no_two_outputs_share_a_name():
    outputs = names(
        "Q_VALUES", "ACTION", "ACTION_LABEL", "BEST_TRIAGE", "BEST_TRIAGE_LABEL", "FORCED", "UNKNOWN_CODES",
        "CONFLICTING_CODES", "TRIAGE_RESPONSES",
    )  # fmt: skip

    assert len(set(outputs)) == len(outputs)


def test_tf_example_keys_are_the_keys_of_a_vignette_line():
    assert names("VIGNETTE_ID", "PRESENT", "ABSENT", "DECISIONS", "TAGS") == [
        "vignette_id", "present", "absent", "decisions", "tags",
    ]  # fmt: skip


def test_signatures_have_the_names_that_clients_call():
    assert names("SERVING_DEFAULT", "TRIAGE", "STATE") == ["serving_default", "triage", "state"]


def test_all_names_are_words_that_a_saved_model_takes():
    for name, value in vars(features).items():
        if name.isupper() and isinstance(value, str):
            assert value.isidentifier(), name
