package redislock

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
	"github.com/lockstep-scheduler/lockstep/test/await"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// The rights that are asked for are those of the scripts' commands, no more and no less.
func TestLeastRightsAreThoseOfTheScripts(t *testing.T) {
	all := lua("namespace", "queue", "memory", "open", "renew", "reassert", "acquire_fast", "release_fast", "acquire", "look", "abandon", "check", "list", "evict", "close")
	want := []string{"-@all", "+subscribe", "+ping", "+eval", "+evalsha", "+script|exists", "+script|load"}
	for _, m := range regexp.MustCompile(`redis\.p?call\('([A-Z]+)'`).FindAllStringSubmatch(all, -1) {
		want = append(want, "+"+strings.ToLower(m[1]))
	}
	slices.Sort(want)
	var got []string
	for rule := range strings.FieldsSeq(leastRights) {
		if strings.HasPrefix(rule, "+") || strings.HasPrefix(rule, "-") {
			got = append(got, rule)
		}
	}
	slices.Sort(got)
	page, err := os.ReadFile("../../docs/backends.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, more := range []string{moreForDB, moreForCluster} {
		for rule := range strings.FieldsSeq(more) {
			if !strings.Contains(string(page), "`"+rule+"`") {
				t.Errorf("docs/backends.md does not mention %s", rule)
			}
		}
	}
	if !strings.Contains(string(page), "ACL SETUSER lockstep on >choose-one "+leastRights+"\n") {
		t.Error("docs/backends.md has other rights")
	}
	if diff := cmp.Diff(slices.Compact(want), got); diff != "" {
		t.Errorf("(-scripts +rights)\n%s", diff)
	}
}

// What is needed beside leastRights.
const (
	moreForDB      = "+select"
	moreForCluster = "+cluster|slots"
)

func TestRightsForAnotherDatabase(t *testing.T) {
	t.Parallel()
	admin := client(t, servers.NewRedis(t).Addr)
	limited(t, admin)
	admin.Do(t.Context(), "ACL", "SETUSER", "lockstep", moreForDB)
	rdb := redis.NewClient(&redis.Options{Addr: admin.Options().Addr, Username: "lockstep", Password: "limited", DB: 3})
	defer rdb.Close()
	s := open(t, rdb, "db")
	lockstest.Grant(t, s, "k")
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestRightsForACluster(t *testing.T) {
	t.Parallel()
	srv := servers.NewRedis(t, "--cluster-enabled", "yes")
	admin := client(t, srv.Addr)
	if err := admin.ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the cluster is whole", func() bool { return strings.Contains(admin.ClusterInfo(t.Context()).Val(), "cluster_state:ok") })
	limited(t, admin)
	for rule := range strings.FieldsSeq(moreForCluster) {
		admin.Do(t.Context(), "ACL", "SETUSER", "lockstep", rule)
	}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{srv.Addr}, Username: "lockstep", Password: "limited"})
	defer rdb.Close()
	s := open(t, rdb, "cluster")
	lockstest.Grant(t, s, "k")
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// A command that the user may not run is named as a missing right, also by servers that say it of the script (Redis 7.0).
func TestAMissingRightIsSaid(t *testing.T) {
	t.Parallel()
	admin := client(t, servers.NewRedis(t).Addr)
	for _, missing := range []string{"-time", "-eval -evalsha"} {
		limited(t, admin)
		for rule := range strings.FieldsSeq(missing) {
			admin.Do(t.Context(), "ACL", "SETUSER", "lockstep", rule)
		}
		rdb := redis.NewClient(&redis.Options{Addr: admin.Options().Addr, Username: "lockstep", Password: "limited"})
		defer rdb.Close()
		l, err := locks.New(New(rdb), locks.Options{Namespace: "missing"})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Connect(t.Context()); err == nil || !strings.Contains(err.Error(), "the user may not do what locks need") {
			t.Errorf("%s: %v", missing, err)
		}
		_ = l.Close(t.Context())
	}
}
