package judge

import "testing"

// Each format of the reason for a taken slot is read, and nothing else.
func TestReadHolder(t *testing.T) {
	const run = "the run of 2026-03-01T12:00:00Z (task t1) "
	of := holder{run: "2026-03-01T12:00:00Z", task: "t1"}
	runs := of
	runs.replica, runs.since = "a since b", "2026-03-01T12:00:03Z"
	for reason, want := range map[string]holder{
		run + "has been running on replica a since b since 2026-03-01T12:00:03Z":                             runs,
		run + "has been running on replica a since b since 2026-03-01T12:00:03Z; 2 more of the job are open": runs,
		run + "has been pending in pool default since 2026-03-01T12:00:00Z":                                  of,
		run + "waits for a retry at 2026-03-01T12:00:09Z":                                                    of,
		run + "waits until 2026-03-01T12:00:09Z":                                                             of,
		run + "was opened first, at 2026-03-01T12:00:05Z":                                                    of,
	} {
		if got, ok := readHolder(reason); !ok || got != want {
			t.Errorf("%q: %+v, %t", reason, got, ok)
		}
	}
	for _, reason := range []string{
		"", "task t1 has the slot", "suspended", run, run + "has been running on replica a", run + "waits", run + "waits until 2026-03-01T12:00:09Z or so",
		"a lost attempt may run until 2026-03-01T12:00:06Z",
	} {
		if got, ok := readHolder(reason); ok {
			t.Errorf("%q: %+v", reason, got)
		}
	}
}
