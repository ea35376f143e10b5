package cluster

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/program"
)

const (
	edits      = 6
	steadyJobs = 12 // no edit is about them
	editedJobs = 6  // each edit changes the schedule of each
)

// Three replicas under load, whose files are edited: they load them while they run, and each is restarted during an edit, once also with
// last week's file, which changes nothing. No due time is lost, none runs twice, and each edit is about the due times after it alone: all those, and no
// others, of the schedule that governed.
func TestEditsUnderLoad(t *testing.T) {
	t.Parallel()
	for _, c := range cells[:2] {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			dialect, dsn, lock := c.open(t, dir)
			e := &edited{
				dir: dir, log: filepath.Join(dir, "log"), replicas: map[string]*replica{}, edit: map[string]int{},
				store: fmt.Sprintf("store: {driver: %s, dsn: %q}\nlock: %s\n", dialect, dsn, strings.Replace(lock, "ttl: 10s", "ttl: 4s", 1)),
			}
			for _, id := range []string{"r1", "r2", "r3"} {
				e.put(t, 0, id)
				e.start(t, id)
			}
			e.db = openStore(t, dialect, dsn)
			e.governs(t, 0)
			for edit := 1; edit <= edits; edit++ {
				switch edit {
				case 2: // it stops while the others load
					e.put(t, edit, "r2", "r3")
					e.restart(t, edit, "r1")
				case 5: // it brings the edit
					e.restart(t, edit, "r3")
					e.put(t, edit, "r1", "r2")
				case 6: // it is away while the others load
					e.replicas["r2"].Drain(t, 30*time.Second)
					e.put(t, edit, "r1", "r2", "r3")
					e.governs(t, edit)
					e.start(t, "r2")
				default:
					e.put(t, edit, "r1", "r2", "r3")
				}
				e.governs(t, edit)
				if edit == 3 {
					e.lastWeek(t, edit)
				}
			}
			until := time.Now()
			program.Within(t, 30*time.Second, "all that was due has ended", func() bool { return settled(t, e.db, until) })
			for _, r := range e.replicas {
				r.Drain(t, 30*time.Second)
			}
			e.verdict(t, until)
		})
	}
}

// edited are replicas with a file each.
type edited struct {
	dir, log string
	store    string // its sections
	db       *sql.DB
	replicas map[string]*replica
	edit     map[string]int // of the file of each
}

// text is the file after an edit. The commands note the edit that they are of.
func (e *edited) text(edit int) string {
	all := "version: 1\nname: edits\nreplica: {session_ttl: 4s, drain_timeout: 5s}\n" + e.store + "jobs:\n"
	job := func(name, schedule string, edit int) {
		all += fmt.Sprintf("  %s: {schedule: %q, concurrency: allow, catch_up: {policy: all, window: 1h}, env: {EDIT: \"%d\"}, shell: 'echo \"$LOCKSTEP_IDEMPOTENCY_KEY $EDIT\" >>%s'}\n",
			name, schedule, edit, e.log)
	}
	for i := range steadyJobs {
		job(fmt.Sprint("steady-", i), "* * * * * *", 0)
	}
	for i := range editedJobs { // by turns also due at seconds that have passed
		first, every := editedSchedule(i, edit)
		job(fmt.Sprint("edited-", i), fmt.Sprintf("%d/%d * * * * *", first, every), edit)
	}
	if edit%2 == 1 {
		job("sometimes", "* * * * * *", edit)
	}
	return all
}

// editedSchedule is in each minute the first second at which a job is due after an edit, and after how many it is due again. It is another one
// after each edit, and last week's is not that of edit 3.
func editedSchedule(i, edit int) (first, every int) {
	n := (edit + edit/3 + i) % 3
	return n, 1 + n
}

// put gives replicas the file of an edit.
func (e *edited) put(t *testing.T, edit int, ids ...string) {
	t.Helper()
	for _, id := range ids {
		path := e.file(id)
		if err := os.WriteFile(path+"~", []byte(e.text(edit)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+"~", path); err != nil {
			t.Fatal(err)
		}
		e.edit[id] = edit
	}
}

func (e *edited) file(id string) string { return filepath.Join(e.dir, id+".yaml") }

func (e *edited) start(t *testing.T, id string) {
	t.Helper()
	e.replicas[id] = startReplica(t, e.file(id), id)
}

// restart gives a replica the file of an edit while it is away: one that loaded it and left would leave the others with the edit before, which
// would govern again.
func (e *edited) restart(t *testing.T, edit int, id string) {
	t.Helper()
	e.replicas[id].Drain(t, 30*time.Second)
	e.put(t, edit, id)
	e.start(t, id)
}

// governs waits until all replicas that run have loaded their files, and a run of each job that the edit was about has ended since.
func (e *edited) governs(t *testing.T, edit int) {
	t.Helper()
	changed := int64(editedJobs + edit%2)
	program.Within(t, 40*time.Second, fmt.Sprintf("edit %d governs, and all replicas have loaded it", edit), func() bool {
		return number(t, e.db, `SELECT COUNT(*) FROM lockstep_sessions WHERE dead = 0 AND config <> ?`, edit+1) == 0 &&
			number(t, e.db, `SELECT COUNT(*) FROM lockstep_definitions WHERE config = ? AND until_at = 0 AND job NOT LIKE 'steady%'`, edit+1) == changed
	})
	program.Within(t, 40*time.Second, fmt.Sprintf("all jobs run as edit %d has them", edit), func() bool {
		return number(t, e.db, `SELECT COUNT(DISTINCT g.job) FROM lockstep_triggers g JOIN lockstep_definitions d ON d.job = g.job AND d.definition = g.definition
			WHERE d.config = ? AND g.outcome = 'ran' AND g.job NOT LIKE 'steady%'`, edit+1) == changed
	})
}

// lastWeek restarts a replica with the first file, while the others have that of an edit, and holds that this changes nothing.
func (e *edited) lastWeek(t *testing.T, edit int) {
	t.Helper()
	before := e.state(t)
	e.replicas["r2"].Drain(t, 30*time.Second)
	e.put(t, 0, "r2")
	e.start(t, "r2")
	back := time.Now()
	if n := number(t, e.db, `SELECT config FROM lockstep_sessions WHERE dead = 0 AND replica = 'r2'`); n != 1 {
		t.Fatalf("last week's file has number %d", n)
	}
	program.Within(t, 30*time.Second, "it says what differs", func() bool {
		return number(t, e.db, `SELECT COUNT(*) FROM lockstep_sessions WHERE dead = 0 AND replica = 'r2' AND differs <> ''`) == 1
	})
	program.Within(t, 30*time.Second, "it goes on with what is the same, and others with the rest", func() bool {
		return number(t, e.db, `SELECT COUNT(*) FROM lockstep_triggers WHERE replica = 'r2' AND at > ? AND outcome = 'ran'`, back.UnixMicro()) > 0 &&
			number(t, e.db, `SELECT COUNT(DISTINCT job) FROM lockstep_triggers WHERE job NOT LIKE 'steady%' AND at > ? AND outcome = 'ran'`, back.UnixMicro()) == editedJobs+1
	})
	if after := e.state(t); after != before {
		t.Errorf("with last week's file came back\n%s\nbefore it was\n%s", after, before)
	}
}

// state is what governs, by the store and by the API of those replicas that are not restarted.
func (e *edited) state(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	query(t, e.db, `SELECT name, hash, schedule, config FROM lockstep_jobs ORDER BY name`, func(rows *sql.Rows) error {
		var name, hash, schedule string
		var config int
		err := rows.Scan(&name, &hash, &schedule, &config)
		fmt.Fprintln(&all, name, hash, schedule, config)
		return err
	})
	for _, w := range e.windows(t) {
		fmt.Fprintln(&all, w)
	}
	for _, id := range []string{"r1", "r3"} {
		var peers struct {
			Items []struct {
				ID      string
				Config  int
				Hash    string `json:"config_hash"`
				Governs bool
			}
		}
		var jobs struct {
			Items []struct {
				Name, Timezone, Handler, Concurrency string
				Schedules                            []string
				Suspended, Retired                   bool
			}
		}
		if err := e.replicas[id].call("GET", "/api/v1/replicas", nil, &peers); err != nil {
			t.Fatal(err)
		}
		if err := e.replicas[id].call("GET", "/api/v1/jobs?limit=500", nil, &jobs); err != nil {
			t.Fatal(err)
		}
		for _, p := range peers.Items {
			if p.ID != "r2" {
				fmt.Fprintln(&all, id, "lists", p)
			} else if p.Governs && p.Config == 1 {
				fmt.Fprintln(&all, id, "says that last week's file governs")
			}
		}
		fmt.Fprintln(&all, id, "has", jobs.Items)
	}
	return all.String()
}

// window is when a definition of a job governed, by the database's time.
type window struct {
	job, definition string
	edit            int
	from, to        time.Time // to is zero while it governs
}

// windows are those of all jobs, in the order of time.
func (e *edited) windows(t *testing.T) (all []window) {
	t.Helper()
	query(t, e.db, `SELECT job, definition, config - 1, since_at, until_at FROM lockstep_definitions ORDER BY job, since_at`, func(rows *sql.Rows) error {
		var w window
		err := rows.Scan(&w.job, &w.definition, &w.edit, (*micros)(&w.from), (*micros)(&w.to))
		all = append(all, w)
		return err
	})
	return all
}

// verdict checks the records of what was due until then.
func (e *edited) verdict(t *testing.T, until time.Time) {
	t.Helper()
	windows := map[string][]window{}
	for _, w := range e.windows(t) {
		windows[w.job] = append(windows[w.job], w)
	}
	rows := ledgerRows(t, e.db)
	editOf := e.ran(t)
	for i := range steadyJobs {
		name := fmt.Sprint("steady-", i)
		wantWindows(t, name, windows[name], 0)
		wantDue(t, windows[name], rows[name], until, func(_, _ int) bool { return true })
	}
	for i := range editedJobs {
		name := fmt.Sprint("edited-", i)
		wantWindows(t, name, windows[name], 0, 1, 2, 3, 4, 5, 6)
		wantDue(t, windows[name], rows[name], until, func(edit, second int) bool {
			first, every := editedSchedule(i, edit)
			return second >= first && (second-first)%every == 0
		})
	}
	wantWindows(t, "sometimes", windows["sometimes"], 1, 3, 5)
	wantDue(t, windows["sometimes"], rows["sometimes"], until, func(_, _ int) bool { return true })

	n := 0
	for name, all := range rows {
		for _, r := range all {
			key := fmt.Sprintf("edits/%s@%s", name, r.at.Format(time.RFC3339))
			edit, ran := editOf[key]
			delete(editOf, key)
			if ran != (r.outcome == "ran") {
				t.Errorf("%s is %q, reason %s; its command ran: %v", key, r.outcome, r.code, ran)
				continue
			}
			i := slices.IndexFunc(windows[name], func(w window) bool { return w.definition == r.definition })
			if ran && (i < 0 || edit < windows[name][i].edit || edit > windows[name][i].edit+1) { // an edit may come between the decision and the start
				t.Errorf("%s was decided by another definition than that of edit %d, by which it ran", key, edit)
			}
			n++
		}
	}
	for key := range editOf {
		t.Errorf("%s ran, and has no row", key)
	}
	t.Logf("%d rows", n)
}

// ran are the keys that commands have noted, with the edits that those are of.
func (e *edited) ran(t *testing.T) map[string]int {
	t.Helper()
	text, err := os.ReadFile(e.log)
	if err != nil {
		t.Fatal(err)
	}
	ran := map[string]int{}
	for line := range strings.Lines(string(text)) {
		key, edit, _ := strings.Cut(strings.TrimSpace(line), " ")
		if _, is := ran[key]; is {
			t.Errorf("%s ran twice", key)
		}
		if ran[key], err = strconv.Atoi(edit); err != nil {
			t.Fatalf("a command noted %q", line)
		}
	}
	return ran
}

// wantWindows holds that these edits governed a job, each once, and one after the other.
func wantWindows(t *testing.T, job string, windows []window, edits ...int) {
	t.Helper()
	for i, w := range windows {
		if i >= len(edits) || w.edit != edits[i] || w.definition == "" || i > 0 && windows[i-1].to.IsZero() || i > 0 && w.from.Before(windows[i-1].to) ||
			i > 0 && w.edit == windows[i-1].edit+1 && !w.from.Equal(windows[i-1].to) {
			t.Errorf("%s was governed as %v, want edits %v", job, windows, edits)
			return
		}
	}
	if len(windows) != len(edits) {
		t.Errorf("%s was governed by %d definitions, want edits %v", job, len(windows), edits)
	}
}

// undecided is how long before an edit due times may be that it finds undecided.
const undecided = 5 * time.Second

// wantDue holds the rows of a job to the arithmetic of its schedules: each due time of a window has one, which was decided by the definition
// of that window and ran. Those that an edit finds undecided are missed, in one row. due tells of a second of a minute.
func wantDue(t *testing.T, windows []window, all []row, until time.Time, due func(edit, second int) bool) {
	t.Helper()
	rows := map[time.Time]row{}
	for _, r := range all {
		edited := r.outcome == "missed" && (r.code == "schedule_changed" || r.code == "job_removed")
		if rows[r.at] = r; !r.at.After(until) && r.count != 1 && !edited {
			t.Errorf("%s at %s stands for %d due times", r.job, clock(r.at), r.count)
		}
	}
	var decided time.Time // all before it
	for _, w := range windows {
		end := until
		if !w.to.IsZero() {
			end = w.to
		}
		from := w.from
		if from.Before(decided) { // a replica's clock may be a little ahead of that of the one who writes the edit
			from = decided
		}
		ran, missed, left := 0, row{}, 0
		for at := from.Truncate(time.Second).Add(time.Second); ; at = at.Add(time.Second) {
			r, is := rows[at]
			mine := is && r.definition == w.definition
			if at.After(end) && (!mine || at.Sub(end) > time.Second || w.to.IsZero()) {
				break
			}
			if !due(w.edit, at.Second()) {
				continue
			}
			delete(rows, at)
			decided = at
			if left > 0 && !is {
				left--
				continue
			}
			late := at.After(end.Add(-undecided))
			switch {
			case mine && r.outcome == "ran" && r.cause == "schedule":
				ran++
				continue
			case mine && r.outcome == "skipped" && r.code == "job_removed" && !w.to.IsZero() && late && r.started.IsZero():
				continue
			case mine && r.outcome == "missed" && (r.code == "schedule_changed" || r.code == "job_removed") && r.decided.Equal(w.to) && late && missed.count == 0:
				missed, left = r, r.count-1
				continue
			case is:
				t.Errorf("%s at %s, when edit %d governed, is %q, cause %s, reason %s, by that definition: %v", r.job, clock(at), w.edit, r.outcome, r.cause, r.code, mine)
				continue
			default:
				t.Errorf("%s at %s, when edit %d governed, has no row", w.job, clock(at), w.edit)
				continue
			}
		}
		if left > 0 || missed.count > 0 && !missed.last().Equal(decided) {
			t.Errorf("edit %d of %s left due times from %s to %s undecided, and its row counts %d", w.edit, w.job, clock(missed.at), clock(missed.last()), missed.count)
		}
		if ran == 0 {
			t.Errorf("%s did not run while edit %d governed", w.job, w.edit)
		}
	}
	for at, r := range rows {
		if !at.After(until) {
			t.Errorf("%s at %s is %q, reason %s, decided at %s: by the schedule that governed it was not due", r.job, clock(at), r.outcome, r.code, clock(r.decided))
		}
	}
}
