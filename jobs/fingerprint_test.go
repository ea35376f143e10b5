package jobs

import (
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// What differs between two times of the same failure is not in its normal form; what tells failures apart is.
func TestNormalError(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "",
		" \n ":                         "",
		"connection refused":           "connection refused",
		"\n  first line \nsecond line": "first line",
		"dial tcp 10.0.0.7:3306: connect: refused":                    "dial tcp #: connect: refused",
		"dial tcp [fe80::1ff:fe23:4567:890a]:80: no route":            "dial tcp [#]:#: no route",
		"dial tcp [::1]:80: no route":                                 "dial tcp [#]:#: no route",
		"lookup db-7f9c6b.svc: no such host":                          "lookup db-#.svc: no such host",
		"user 4711 not found":                                         "user # not found",
		"order17 is 1.5s late, limit 10MB or 3,000":                   "order# is # late, limit # or #",
		"at 2026-11-28T08:47:49Z: too late":                           "at #: too late",
		"took 1m30.25s":                                               "took #",
		"took 250µs":                                                  "took #",
		"task 0197b2c1-7c3e-7a5b-9d4f-0123456789ab is locked":         "task # is locked",
		"panic: pointer 0xc000123abc at deadbeef01":                   "panic: pointer # at #",
		`no column "total" in 'orders' or ` + "`x y`":                 `no column "?" in "?" or "?"`,
		`bad "a \" b" here`:                                           `bad "?" here`,
		"can't open what doesn't exist":                               "can't open what doesn't exist",
		`an open "quote`:                                              `an open "quote`,
		"mail to bob.smith+x@mail.example.org bounced":                "mail to # bounced",
		"charge ch_3OaQ2eZvKYlo2C08 was declined":                     "charge # was declined",
		"key accountlongerthan1word":                                  "key #",
		"utf8 and http2 and E1062":                                    "utf# and http# and E#",
		"too   many\tblanks":                                          "too many blanks",
		"Traceback (most recent call last):\n  File x\nKeyError: 'a'": `KeyError: "?"`,
		"Traceback (most recent call last):":                          "Traceback (most recent call last):",
		"zu groß: 7 Stück":                                            "zu groß: # Stück",
		strings.Repeat("x", 600):                                      strings.Repeat("x", 512),
		strings.Repeat("x", 511) + "ß":                                strings.Repeat("x", 511),
	} {
		if got := NormalError(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
		if again := NormalError(NormalError(text)); !strings.Contains(text, "quote") && again != NormalError(text) {
			t.Errorf("%q changes when it is normalized again: %q", NormalError(text), again)
		}
	}
}

// The fingerprints of a version are in databases: they stay as they are.
func TestFingerprintsStayAsTheyAre(t *testing.T) {
	exit := 3
	for _, c := range []struct {
		want string
		task Task
	}{
		{"", Task{State: StateSucceeded, Error: "a"}},
		{"", Task{State: StateCancelled, Error: "a"}},
		{"", Task{State: StatePending, Error: "a"}},
		{"", Task{State: StateRunning}},
		{"545c38b0922de197", Task{State: StateFailed}},
		{"a36c3a535557adbf", Task{State: StateFailed, ReasonCode: reason.Error, Error: "user 4711 not found"}},
		{"a36c3a535557adbf", Task{State: StateFailed, ReasonCode: reason.Error, Error: "user 1 not found\nat x", Pool: "p", Replica: "r", Attempt: 3, Reason: "why"}},
		{"877480e32ab06fcc", Task{State: StateFailed, ReasonCode: reason.Error, Error: "user 4711 not found", Kind: "k"}},
		{"8768fb883a280e79", Task{State: StateFailed, ReasonCode: reason.Error, Error: "user 4711 not found", Job: "k"}},
		{"afdc8385e8a34096", Task{State: StateFailed, ReasonCode: reason.ExitCode, Error: "exit status 3", ExitCode: &exit}},
		{"8b9220252869522e", Task{State: StateLost, ReasonCode: reason.ReplicaDied, Reason: "replica a"}},
		{"8b9220252869522e", Task{State: StateLost, ReasonCode: reason.ReplicaDied, Reason: "replica b", Error: "of the attempt before"}},
	} {
		if got := Fingerprint(c.task); got != c.want {
			t.Errorf("%+v: %q, want %q", c.task, got, c.want)
		}
	}
}
