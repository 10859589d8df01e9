"""
The design rules of the core, each with who notices when it does not hold: oracles of the simulation, and a quick test.

A rule is named by its first words. Where no oracle can look, there is only a test.
"""

RULES = {
    "client/_session": (
        ("An attempt occupies a slot", "slots, left behind", "client/test_client:test_cancelled_at_every_moment"),
        (
            "Every attempt releases its slot",
            "slots, growth",
            "client/test_client:test_cancelled_attempts_do_not_raise_the_limit",
        ),
        ("Errors are raised outside of the handlers", "key", "client/test_client:test_key_is_not_shown"),
        (
            "A refusal that names no reference",
            "not found, rejected",
            "client/test_client:test_freshness_of_the_last_attempt",
        ),
    ),
    "client/_outage": (
        ("An attempt is answered by any response", "recovers", "client/test_outage_rules:test_is_answer"),
        ("An outage begins when", "waits, recovers, refused", "client/test_outage_rules:test_beginning"),
        ("A failure is about its reference", "waits", "client/test_outage:test_poisoned_references"),
        ("A status alternates with answers", "", "client/test_alternating:test_limit"),
        ("A probe is sent for a new or a queued lookup", "probes, waits", "client/test_outage_rules:test_probes"),
        ("A probe belongs to the client", "recovers", "client/test_outage:test_impatient_callers"),
        ("Evidence ages", "recovers", "client/test_outage:test_evidence_has_an_age"),
        ("After an outage the limiter starts slowly", "slow start", "client/test_outage:test_slow_start"),
    ),
    "client/_stream": (
        ("A worker takes the next reference only", "lost", "client/test_stream:test_fatal_while_the_reader_stalls"),
        ("Rows that wait for a later pass", "error", "client/test_stream:test_bad_rows_that_hold_up_the_input"),
        ("Deferred rows do not wait", "held up", "client/test_stream:test_deferred_rows_do_not_wait_for_a_slow_source"),
        (
            "All workers end before the block",
            "left behind",
            "client/test_cancellation:test_no_worker_outlives_its_block",
        ),
        ("A stream is read only inside its ", "", "client/test_stream:test_after_leaving"),
        ("A transient failure is final only", "unanswered", "client/test_deferral:test_outage_costs_no_row"),
        ("A failure that every reference would have", "error", "client/test_stream:test_fatal_is_raised_once"),
        ("A redirect, or a 404 of another program", "error", "client/test_deferral:test_row_elsewhere"),
    ),
    "client/policies/_capacity": (
        ("The rate is unlimited", "", "client/policies/test_capacity:test_growth_is_cubic"),
        ("One cut per congestion event", "limiter", "client/test_limiter_laws:test_any_schedule"),
        ("Each refusal in a row halves the rate", "", "client/policies/test_capacity:test_limit_per_minute"),
        ("If an attempt is refused with more others", "", "client/policies/test_capacity:test_cases"),
        ("Slow start: at the start", "growth", "client/policies/test_capacity:test_cases"),
        ("Some failures of the service are normal", "", "client/policies/test_capacity:test_cases"),
        ("Some services refuse a share", "", "client/test_goodput:test_refused_at_any_rate"),
        ("Workers that share a key", "", "client/policies/test_capacity:test_workers_grow_slowly"),
        ("Half a minute without an attempt", "", "client/test_early_rejections:test_slow_an_hour_ago"),
    ),
    "client/policies/_limiter": (
        ("Awaited lookups go before", "", "client/policies/test_limiter:test_newest_first_in_a_standing_queue"),
        ("A caller with too little time", "", "client/policies/test_limiter:test_no_slot_for_nothing"),
        ("A caller who cannot be answered", "", "client/policies/test_limiter:test_told_at_once"),
        ("A pause that the service asks for", "pause", "client/policies/test_limiter:test_nothing_during_a_pause"),
        ("`max_rate` is kept", "rate", "client/test_limiter_laws:test_never_above_its_rate"),
        ("A probe of an outage does not queue", "limiter, pause, rate", "client/policies/test_limiter:test_probe"),
    ),
    "blocking": (
        ("No lock", "waits for ever", "test_blocking:test_closed_while_others_wait"),
        ("However the loop ends", "waits for ever, left behind", "test_blocking:test_loop_ends"),
    ),
}
"""By module: the first words of a rule, the oracles, and the test as `file:name`."""
