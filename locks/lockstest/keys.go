package lockstest

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/locks"
)

var keys = []testCase{
	{"keys/look-alikes", func(t *testing.T, s *suite) {
		c := s.kept(t, s.client(t), namespace())
		alike := []string{
			"user/a", "user/A", "user/a/", "user//a", "user/a/b", "user", "user/", "user/.", "user/..", "user/../a",
			"user/a*", "user/a%", "user/a_", "user/a?", "user/[a]", "user/{a}", `user/a\`, "user/a'", `user/a"`, "user/a;",
			"user/a:", "user/a%2F", "user/a%20", "user/a0000000001", "zookeeper", "%", "/", "//", "~", "!",
			strings.Repeat("k", 200), strings.Repeat("k", 199) + "K",
		}
		slices.Sort(alike)
		held := s.takeAll(t, c, alike...)
		listed(t, s, c.ID(), alike, func() ([]locks.Info, error) { return c.List(calling(t), "", "", 100) })
		for i, h := range held {
			free(t, c, h)
			for j, ok := range check(t, c, held) {
				if want := j > i; ok != want {
					t.Fatalf("after the release of %s: %s is held: %v, want %v", h.Key, held[j].Key, ok, want)
				}
			}
		}
	}},
	{"keys/each printable character", func(t *testing.T, s *suite) {
		c := s.kept(t, s.client(t), namespace())
		var each []string
		for b := byte('!'); b <= '~'; b++ {
			each = append(each, string(rune(b)))
		}
		s.takeAll(t, c, each...)
		listed(t, s, c.ID(), each, func() ([]locks.Info, error) { return c.List(calling(t), "", "", 100) })
	}},
	{"keys/bad ones never reach the driver", func(t *testing.T, s *suite) {
		v := behindLink(t, s.Driver(t))
		l := s.locker(t, v, s.patience(), namespace(), "bad keys")
		for _, key := range []string{"", " ", "a b", "a\n", "\x00", "ü", "a\x7f", strings.Repeat("k", 201)} {
			if a, err := l.TryAcquire(t.Context(), locks.Request{Key: "user/good"}, locks.Request{Key: key}); err == nil {
				t.Errorf("key %q: %+v, want an error", key, a)
			}
			if _, err := l.ForceRelease(t.Context(), key, 1); err == nil {
				t.Errorf("force release of key %q: want an error", key)
			}
		}
		if v.last() != nil {
			t.Error("the driver was asked")
		}
	}},
}

func listed(t *testing.T, s *suite, session string, want []string, list func() ([]locks.Info, error)) {
	t.Helper()
	infos, err := list()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, info := range infos {
		if info.Session == session {
			got = append(got, info.Key)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("listed keys (-want +got):\n%s", diff)
	}
}
