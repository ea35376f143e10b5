package lockstest

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

var list = []testCase{
	{"list/pages in key order", func(t *testing.T, s *suite) {
		ns := namespace()
		a, b := s.kept(t, s.client(t), ns), s.kept(t, s.client(t), ns)
		var mine, others []string
		for i, key := range numbered(25) {
			if i%3 == 0 {
				others = append(others, key)
			} else {
				mine = append(mine, key)
			}
		}
		s.takeAll(t, a, append([]string{"sys/a", "use", "user."}, mine...)...)
		s.takeAll(t, b, append(others, "user0", "user1/a")...)
		var got []string
		for after := ""; ; {
			infos, err := a.List(calling(t), "user/", after, 7)
			if err != nil || len(infos) > 7 {
				t.Fatalf("%d entries on a page of 7, %v", len(infos), err)
			}
			for _, info := range infos {
				if info.Key <= after {
					t.Fatalf("%s comes after %s", info.Key, after)
				}
				after = info.Key
				got = append(got, info.Key)
			}
			if len(infos) < 7 {
				break
			}
		}
		if diff := cmp.Diff(numbered(25), got); diff != "" {
			t.Errorf("keys under user/ (-want +got):\n%s", diff)
		}
		all, err := b.List(calling(t), "", "user1", 100)
		if err != nil || len(all) != 1 || all[0].Key != "user1/a" {
			t.Errorf("after user1: %+v, %v", all, err)
		}
	}},
	{"list/names the holder", func(t *testing.T, s *suite) {
		ns := namespace()
		a, b := s.kept(t, s.client(t), ns), s.kept(t, s.client(t), ns)
		held := s.take(t, a, "user/a")
		infos, err := b.List(calling(t), "user/a", "", 1)
		if err != nil || len(infos) != 1 {
			t.Fatalf("list: %+v, %v", infos, err)
		}
		got := infos[0]
		if since := time.Since(got.Since); !got.Since.IsZero() && since.Abs() > time.Minute {
			t.Errorf("since %v, which is %v ago", got.Since, since)
		}
		if got.Remaining < 0 || got.Remaining > a.TTL() {
			t.Errorf("remaining %v, of a ttl of %v", got.Remaining, a.TTL())
		}
		got.Since, got.Remaining = time.Time{}, 0
		want := driver.Info{
			Key: "user/a", Token: held.Token, Session: a.ID(), Owner: "owner of " + t.Name(), Meta: "meta of user/a",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("info (-want +got):\n%s", diff)
		}
		free(t, a, held)
		if infos, err := b.List(calling(t), "", "", 5); err != nil || len(infos) != 0 {
			t.Errorf("after the release: %+v, %v", infos, err)
		}
	}},
	{"list/long owners and metas", func(t *testing.T, s *suite) {
		odd := `quote ' " \ % and ünicode`
		owner, meta := strings.Repeat("o", 512-len(odd))+odd, strings.Repeat("m", 512-len(odd))+odd
		c := s.openAs(t, s.client(t), driver.Open{Namespace: namespace(), TTL: s.patience(), Owner: owner})
		keep(t, c)
		s.recovered(t, func() error {
			results, err := c.TryAcquire(calling(t), "id", []driver.Want{{Key: "user/a", Meta: meta}})
			if err != nil {
				return err
			}
			return sound("user/a", results[0])
		})
		infos, err := c.List(calling(t), "", "", 5)
		if err != nil || len(infos) != 1 || infos[0].Owner != owner || infos[0].Meta != meta {
			t.Errorf("list: %+v, %v, want owner and meta as they were given", infos, err)
		}
	}},
}
