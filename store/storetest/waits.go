package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

var waitCases = []Case{
	{"Waits/Tried", waitsTried},
	{"Waits/First", waitsFirst},
	{"Waits/Many", waitsMany},
	{"Waits/Queued", waitsQueued},
	{"Waits/Claimed", waitsClaimed},
	{"Waits/Limit", waitsLimit},
	{"Waits/Decided", waitsDecided},
	{"Waits/Cancelled", waitsCancelled},
	{"Waits/WrongKey", waitsWrongKey},
}

// locking claims tasks of a pool, of which the replica says this about their locks; the zero Locking for the others.
func (s *scene) locking(pool string, of map[string]ledger.Locking) ledger.Claimed {
	s.t.Helper()
	return s.lockingWith(pool, of, nil)
}

func (s *scene) lockingWith(pool string, of map[string]ledger.Locking, change func(*ledger.Claim)) ledger.Claimed {
	s.t.Helper()
	c := s.claiming(pool, 10)
	c.Locks = func(c ledger.Candidate) ledger.Locking { return of[c.Task.ID] }
	if change != nil {
		change(&c)
	}
	got, err := s.Store.Claim(s.ctx(), c)
	must(s.t, err)
	return got
}

func wants(keys ...string) ledger.Locking {
	return ledger.Locking{State: ledger.LocksWanted, Keys: keys}
}

func busy(keys ...string) ledger.Locking {
	return ledger.Locking{State: ledger.LocksBusy, Keys: keys, Reason: "waits for lock " + strings.Join(keys, " ") + ", held by x"}
}

func (s *scene) first(skip ...string) []ledger.Wait {
	s.t.Helper()
	first, _, err := s.Store.FirstWaits(s.ctx(), s.session, skip, 100)
	must(s.t, err)
	return first
}

func waiting(waits []ledger.Wait) (ids []string) {
	for _, w := range waits {
		ids = append(ids, w.TaskID)
	}
	return ids
}

func startedIDs(tasks []ledger.Started) (ids []string) {
	for _, t := range tasks {
		ids = append(ids, t.ID)
	}
	return ids
}

// A task whose locks were not tried stays as it is, and those without locks are claimed past it. Once they were busy it waits: no claim
// looks at it, and others that want one of its keys wait behind it.
func waitsTried(t *testing.T, b *Bench) {
	s := newScene(t, b)
	made := s.enqueue("work", 4)
	of := map[string]ledger.Locking{made[0]: wants("user/a"), made[2]: wants("user/b")}
	got := s.locking("work", of)
	if d := cmp.Diff([]string{made[1], made[3]}, startedIDs(got.Tasks)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{made[0], made[2]}, ids(got.Locked)); d != "" {
		t.Error(d)
	}
	s.want("a task that was not tried", s.task(made[0]), "ready attempt 0 token 0 replica -: -")
	later := s.enqueue("work", 2)
	of = map[string]ledger.Locking{made[0]: busy("user/a"), made[2]: wants("user/b"), later[0]: wants("user/a", "user/c"), later[1]: wants("user/c")}
	got = s.locking("work", of)
	if d := cmp.Diff([]string{made[0], later[0], later[1]}, ids(got.Waiting)); d != "" || len(got.Tasks) > 0 {
		t.Error(d, got.Tasks)
	}
	if d := cmp.Diff([]string{made[2]}, ids(got.Locked)); d != "" {
		t.Error(d)
	}
	s.want("a task that waits", s.task(made[0]), "3 attempt 0 token 0 replica -: waits for lock user/a, held by x")
	s.want("a task behind it", s.task(later[0]), "3 attempt 0 token 0 replica -: waits for lock a, c, behind tasks that wait for it")
	shown, _, err := s.Store.Task(s.ctx(), made[0])
	if err != nil || shown.State != jobs.StatePending || shown.ReasonCode != reason.WaitsForLock {
		t.Errorf("shown as %+v, %v", shown, err)
	}
	if got = s.locking("work", nil); len(got.Tasks) != 1 || got.Tasks[0].ID != made[2] {
		t.Errorf("claimed %v", startedIDs(got.Tasks))
	}
	pools, err := s.Store.Pools(s.ctx())
	must(t, err)
	if i := slices.IndexFunc(pools, func(p ledger.PoolStatus) bool { return p.Name == "work" }); pools[i].Pending != 3 || pools[i].Running != 3 {
		t.Errorf("counted %+v", pools[i])
	}
	ready, err := s.Store.Ready(s.ctx(), asIs)
	if err != nil || len(ready.Pools) > 0 {
		t.Errorf("pools with work: %v, %v", ready.Pools, err)
	}
}

// A wait is first if no other one is before it for any of its keys: by priority, due time and id. What is in a paused pool, or skipped, is
// before nobody.
func waitsFirst(t *testing.T, b *Bench) {
	s := newScene(t, b)
	work, other := s.enqueue("work", 4), s.enqueue("default", 1)
	s.DB.Exec(t, "UPDATE {tasks} SET rank_order=-5 WHERE id=?", work[2])
	s.DB.Exec(t, "UPDATE {tasks} SET kind='k' WHERE id=?", work[3])
	s.locking("work", map[string]ledger.Locking{work[0]: busy("user/a"), work[1]: busy("user/a", "user/b"), work[2]: busy("user/b"), work[3]: busy("user/c")})
	s.locking("default", map[string]ledger.Locking{other[0]: busy("user/c")})
	if d := cmp.Diff([]string{work[2], work[0], work[3]}, waiting(s.first())); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{work[2], work[0], other[0]}, waiting(s.first("kind/work/k", "job/none"))); d != "" {
		t.Error("skipped:", d)
	}
	if got := s.first()[2].Task(); got.Pool != "work" || got.Kind != "k" || got.Job != "" {
		t.Errorf("the work is %+v", got)
	}
	must(t, s.Store.PausePool(s.ctx(), "work", "", new(true)))
	if d := cmp.Diff(other, waiting(s.first())); d != "" {
		t.Error("paused:", d)
	}
	must(t, s.Store.PausePool(s.ctx(), "work", "", nil))
	s.DB.Exec(t, "UPDATE {pools} SET hash='' WHERE name='work'")
	if d := cmp.Diff(other, waiting(s.first())); d != "" {
		t.Error("retired:", d)
	}
}

// However many keys are waited for, all of them are looked at, and a task is first if it is for all of its keys. A limit ends also where
// nothing is first.
func waitsMany(t *testing.T, b *Bench) {
	const many = 1100
	s := newScene(t, b)
	made := s.enqueue("work", many)
	of := map[string]ledger.Locking{}
	for i, id := range made {
		of[id] = busy(fmt.Sprintf("user/k%05d", i))
	}
	of[made[1]] = busy("user/a", "user/z")
	of[made[many-1]] = ledger.Locking{State: ledger.LocksBusy, Keys: []string{"user/z"}, Wait: time.Hour, Reason: "waits"}
	s.lockingWith("work", of, func(c *ledger.Claim) { share(c, func(s *ledger.Share) { s.Room = many }) })
	first, ends, err := s.Store.FirstWaits(s.ctx(), s.session, nil, 10_000)
	if d := cmp.Diff(made[:many-1], waiting(first)); d != "" || err != nil || ends.IsZero() {
		t.Errorf("the first limit ends at %v, %v, %s", ends, err, d)
	}
	if first, _, err = s.Store.FirstWaits(s.ctx(), s.session, nil, 1050); err != nil || len(first) != 1049 {
		t.Errorf("of 1050 keys %d are first, %v", len(first), err)
	}
	if first, ends, err = s.Store.FirstWaits(s.ctx(), s.session, []string{"kind/work/"}, 10_000); err != nil || len(first) > 0 || ends.IsZero() {
		t.Errorf("skipped: %d are first, the first limit ends at %v, %v", len(first), ends, err)
	}
}

// One live session queues a task; when it is dead, another one does.
func waitsQueued(t *testing.T, b *Bench) {
	s := newScene(t, b)
	two := s.second("two")
	made := s.enqueue("work", 2)
	s.locking("work", map[string]ledger.Locking{made[0]: busy("user/a", "user/c"), made[1]: busy("user/b")})
	mine, err := s.Store.QueueWaits(s.ctx(), s.session, made[:1])
	if err != nil || len(mine) != 1 || mine[0].ID != made[0] || string(mine[0].Payload) != `"`+made[0]+`"` {
		t.Fatalf("queued %+v, %v", mine, err)
	}
	queued := func(s *scene, tasks ...string) []string {
		t.Helper()
		mine, err := s.Store.QueueWaits(s.ctx(), s.session, tasks)
		must(t, err)
		return ids(mine)
	}
	if d := cmp.Diff(made[1:], queued(two, made...)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]ledger.Wait{
		{TaskID: made[0], Pool: "work", Work: "kind/work/"}, {TaskID: made[1], Pool: "work", Work: "kind/work/", Queued: true},
	}, s.first()); d != "" {
		t.Error(d)
	}
	why := map[string]string{made[0]: "waits for y", made[1]: "waits for z"}
	must(t, s.Store.ExplainWaits(s.ctx(), s.session, why))
	must(t, s.Store.LeaveWaits(s.ctx(), s.session, made))
	s.want("what it has queued", s.task(made[0]), "3 attempt 0 token 0 replica -: waits for y")
	s.want("what another one has queued", s.task(made[1]), "3 attempt 0 token 0 replica -: waits for lock user/b, held by x")
	must(t, s.Store.ExplainWaits(s.ctx(), s.session, map[string]string{made[0]: "waits for w"}))
	s.want("what nobody has queued", s.task(made[0]), "3 attempt 0 token 0 replica -: waits for w")
	if d := cmp.Diff(made[:1], queued(two, made[:1]...)); d != "" {
		t.Error("left:", d)
	}
	must(t, s.Store.ExplainWaits(s.ctx(), s.session, why))
	s.want("what another one has queued since", s.task(made[0]), "3 attempt 0 token 0 replica -: waits for w")
	two.die()
	must(t, s.Store.ExplainWaits(s.ctx(), s.session, why))
	s.want("what a dead one has queued", s.task(made[1]), "3 attempt 0 token 0 replica -: waits for z")
	if d := cmp.Diff(made, queued(s, made...)); d != "" {
		t.Error("of a dead session:", d)
	}
	if got := queued(s, newID()); len(got) > 0 {
		t.Errorf("queued %v, which does not wait", got)
	}
	s.DB.Exec(t, "UPDATE {tasks} SET state=0 WHERE id=?", made[1])
	if got := queued(s, made...); !slices.Equal(got, made[:1]) {
		t.Errorf("queued %v", got)
	}
	if d := cmp.Diff(made[:1], waiting(s.first())); d != "" {
		t.Error("behind a row whose task waits no more:", d)
	}
}

// A task that waits is claimed by its id, once its leases are there: by the rules of all claims.
func waitsClaimed(t *testing.T, b *Bench) {
	s := newScene(t, b)
	made := s.enqueue("work", 2)
	s.locking("work", map[string]ledger.Locking{made[0]: busy("user/a"), made[1]: busy("user/a")})
	claim := func(pool string, of map[string]ledger.Locking, ids ...string) ledger.Claimed {
		return s.lockingWith(pool, of, func(c *ledger.Claim) { c.Waiting = ids })
	}
	if got := claim("work", map[string]ledger.Locking{made[0]: wants("user/a")}, made[0]); len(got.Tasks)+len(got.Locked)+len(got.Waiting) > 0 {
		t.Errorf("claimed without its leases: %+v", got)
	}
	if got := claim("default", nil, made[0]); len(got.Tasks) > 0 {
		t.Errorf("claimed in another pool: %+v", got)
	}
	s.limit("work", 1)
	running := s.enqueue("work", 1)
	if got := s.lockingWith("work", nil, func(c *ledger.Claim) { share(c, func(s *ledger.Share) { s.Limited = true }) }); len(got.Tasks) != 1 || got.Tasks[0].ID != running[0] {
		t.Fatalf("the waits take room of the pool: %+v", got)
	}
	limited := func(c *ledger.Claim) {
		share(c, func(s *ledger.Share) { s.Limited = true })
		c.Waiting = made[:1]
	}
	if got := s.lockingWith("work", nil, limited); len(got.Tasks) > 0 || !got.Full {
		t.Errorf("claimed beyond max_running: %+v", got)
	}
	s.want("what waits for room", s.task(made[0]), "ready attempt 0 token 0 replica -: -")
	if d := cmp.Diff(made[1:], waiting(s.first())); d != "" {
		t.Error("the next one is first for the lock:", d)
	}
	s.limit("work", 0)
	if got := s.locking("work", map[string]ledger.Locking{made[0]: busy("user/a")}); len(got.Waiting) != 1 || got.Waiting[0].ID != made[0] {
		t.Fatalf("waits again: %+v", got)
	}
	got := claim("work", nil, made[0])
	if len(got.Tasks) != 1 || got.Tasks[0].ID != made[0] || got.Tasks[0].Token != 1 || got.Tasks[0].Reason != "" || got.Tasks[0].ReasonCode != "" {
		t.Fatalf("claimed %+v", got)
	}
	s.want("row", s.task(made[0]), "running attempt 1 token 1 replica one: -")
	if d := cmp.Diff(made[1:], waiting(s.first())); d != "" {
		t.Error(d)
	}
	if again := claim("work", nil, made[0]); len(again.Tasks) > 0 {
		t.Errorf("claimed twice: %+v", again)
	}
	s.wantInt(1, "SELECT COUNT(*) FROM {lock_waits}")
	s.finish(result(*got.Tasks[0].Task, ledger.HandBack, jobs.StatePending))
	s.want("handed back", s.task(made[0]), "ready attempt 0 token 1 replica -: -")
}
