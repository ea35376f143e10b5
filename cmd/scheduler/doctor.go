package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/unwrap"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/exechandler"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/metrics"
	"github.com/lockstep-scheduler/lockstep/store"
	"github.com/lockstep-scheduler/lockstep/store/sqlite"
)

// Levels of what the doctor finds.
const (
	levelOK      = "ok"
	levelWarning = "warning"
	levelProblem = "problem" // a replica would not start, or not do its work
)

// finding is one thing that the doctor has looked at.
type finding struct {
	Check  string `json:"check"` // configuration, server, descriptors, store, schema, clock, lock, replicas or commands
	Level  string `json:"level"`
	Text   string `json:"text"`
	Advice string `json:"advice,omitempty"` // what to do about it
}

// examination is a doctor's visit.
type examination struct{ findings []finding }

func newDoctorCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Say whether a replica would run here, and what it could promise",
		Long: "Look at the configuration, the store and its tables, the clocks, the lock service and this system, and say of each\n" +
			"whether a replica would run with it, what it promises, and what to do where it does not. Nothing of yours is changed and no replica is asked.\n" +
			"Beside a SQLite database a file of 1 MiB is written and removed, to see that there is room; the database is opened to read it.\n" +
			"The exit code is 1 if there is a problem, and 2 if the configuration cannot be used.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := a.configPath()
			if err != nil {
				return err
			}
			c, err := config.Load(path, config.Options{Environ: a.environ})
			if err != nil {
				return err
			}
			var e examination
			e.examine(cmd.Context(), c)
			if err := a.print(e.findings, e.write); err != nil {
				return err
			}
			if n := e.problems(); n > 0 {
				return fmt.Errorf("the doctor has found %s", count(n, "problem"))
			}
			return nil
		},
	}
}

func (e *examination) add(check, level, advice, format string, args ...any) {
	e.findings = append(e.findings, finding{check, level, fmt.Sprintf(format, args...), advice})
}

func (e *examination) problems() (n int) {
	for _, f := range e.findings {
		if f.Level == levelProblem {
			n++
		}
	}
	return n
}

func (e *examination) write(w io.Writer) error {
	rows := make([][]string, 0, len(e.findings))
	for _, f := range e.findings {
		text := f.Text
		if f.Advice != "" {
			text += ": " + f.Advice
		}
		rows = append(rows, []string{f.Level, f.Check, text})
	}
	return table(w, "LEVEL CHECK FINDING", rows)
}

func (e *examination) examine(ctx context.Context, c *config.Config) {
	e.add("configuration", levelOK, "", "%s has %s and %s", c.Path, count(len(c.Set.Jobs), "job"), count(len(c.Set.Pools), "pool"))
	for _, w := range c.Warnings {
		e.add("configuration", levelWarning, "", "%v", w)
	}
	for _, w := range c.Weak() {
		e.add("configuration", levelWarning, "remove insecure, and write what it stands for: the section tls, or auth_file", "insecure: %s", w)
	}
	missing, expiry, err := checkDoor(c.Server)
	if err != nil {
		e.add("server", levelProblem, "mend it", "%v", err)
	}
	for _, path := range missing {
		e.add("server", levelProblem, "put it there, or correct the path", "%s is not on this machine", path)
	}
	if expiry != "" {
		e.add("server", levelWarning, "put another one in its place; or correct the clock, if that is wrong", "%s", expiry)
	}
	e.listen(c.Server.Listen)
	e.descriptors(newDescriptors(c.Replica.Workers))
	if p := e.store(ctx, c); p != nil {
		e.lock(ctx, c, p)
		e.otherStores(ctx, p)
		e.replicas(ctx, p)
		if err := p.close(ctx); err != nil {
			e.add("store", levelWarning, "", "it was not closed cleanly: %v", err)
		}
	}
	e.commands()
	e.startable(c)
}

// listen takes the address of the API, and leaves it at once.
func (e *examination) listen(address string) {
	listener, err := net.Listen("tcp", address)
	switch {
	case err == nil:
		_ = listener.Close()
	case errors.Is(err, syscall.EADDRINUSE):
		e.add("server", levelWarning, "one that starts here needs an address of its own, see --listen",
			"something listens at %s already, a replica that runs or another program", address)
	default:
		e.add("server", levelProblem, "correct server.listen", "%v", err)
	}
}

// store looks at the database, and returns it if a lock service can be looked at with it.
func (e *examination) store(ctx context.Context, c *config.Config) *parts {
	if c.Store.Driver == config.SQLite && c.Store.DSN != ":memory:" {
		if _, err := os.Stat(c.Store.DSN); errors.Is(err, fs.ErrNotExist) {
			// Opening it would make it.
			if err := sqlite.Check(c.Store.DSN); err != nil {
				e.add("store", levelProblem, "", "%v", err)
				e.reach(ctx, c, withStore)
				return nil
			}
			level, advice := levelWarning, "the first replica makes it"
			if c.Store.Migrate != "auto" {
				level, advice = levelProblem, `run "scheduler migrate up", or set store.migrate: auto`
			}
			e.add("store", level, advice, "there is no %s yet, so its tables were not looked at", c.Store.DSN)
			e.reach(ctx, c, withTables)
			return nil
		}
	}
	if exposed, remedy, write := exposedStore(c.Store, -1); exposed != "" { // a replica may run as another user than the doctor
		e.add("store", levelWarning, remedy, "%s: %s", exposure(write), exposed)
	}
	began := time.Now()
	st, err := look(ctx, c.Store)
	if err != nil {
		advice := ""
		if c.Store.Driver != config.SQLite && unanswered(err) {
			advice = connect
		}
		if answer, ok := errors.AsType[*mysql.MySQLError](err); ok && answer.Number == accessDenied {
			advice = correctAccount
		}
		e.add("store", levelProblem, advice, "%v", err)
		e.reach(ctx, c, withStore)
		return nil
	}
	e.add("store", levelOK, "", "%s answers after %v", c.Store.Driver, time.Since(began).Round(time.Millisecond))
	p := &parts{store: st, metrics: metrics.New(st, metrics.Options{Version: version()})}
	p.closers = append(p.closers, func(context.Context) error { return st.Close() })
	e.clock(ctx, c, st)
	if !e.schema(ctx, c, st) && c.Set.Name == "" && !c.LockInStore() {
		e.reach(ctx, c, withTables)
		_ = p.close(ctx)
		return nil
	}
	return p
}

// look opens the store, and a SQLite file only to read it: a replica may have it.
func look(ctx context.Context, c config.Store) (*store.Store, error) {
	if c.Driver == config.SQLite && c.DSN != ":memory:" {
		return store.OpenReadOnly(ctx, c.DSN, store.Options{Prefix: c.TablePrefix})
	}
	return openStore(ctx, c)
}

func (e *examination) clock(ctx context.Context, c *config.Config, st *store.Store) {
	asked := time.Now()
	database, err := st.Sides().Admin.Now(ctx)
	if err != nil {
		e.add("clock", levelProblem, "see that the account may read", "%v", err)
		return
	}
	trip := time.Since(asked)
	apart := database.Sub(asked.Add(trip / 2)).Round(time.Millisecond)
	if limit := c.Replica.MaxClockSkew; apart.Abs() > limit+trip {
		e.add("clock", levelWarning, "mend NTP on whichever is wrong; replicas go by the database", "the database's clock is %v from this machine's", apart)
		return
	}
	e.add("clock", levelOK, "", "the database's clock is %v from this machine's", apart)
}

// connect is what to do about a server that cannot be reached.
const connect = "see that it runs and that the address and the account are right"

// correctAccount is what to do about a MySQL server that refuses the account.
const (
	correctAccount = "the server runs; correct the user, the password or the account, see docs/backends.md"
	accessDenied   = 1045
)

// unanswered tells a server that cannot be reached from one whose answer says what is wrong.
func unanswered(err error) bool {
	_, network := errors.AsType[net.Error](err) // a deadline that has passed is one, too
	return network || errors.Is(err, jobs.ErrUnavailable) || errors.Is(err, driver.ErrUnreachable)
}

// unreadable is what to do about tables that should be there.
const unreadable = "see that the database answers, that none of its tables was removed, and that the account may read them"

// schema reports whether the tables are there.
func (e *examination) schema(ctx context.Context, c *config.Config, st *store.Store) bool {
	err := st.CheckSchema(ctx)
	steps, _ := st.Sides().Admin.MigrationStatus(ctx) // what is wrong with it is in err
	applied := 0
	for _, s := range steps {
		if !s.AppliedAt.IsZero() {
			applied++
		}
	}
	newer := applied > 0 && len(steps) > 0 && steps[len(steps)-1].Unknown
	switch {
	case err == nil:
		e.add("schema", levelOK, "", "%d of %d steps were applied", applied, len(steps))
		e.rights(ctx, st, false)
	case errors.Is(err, store.ErrSchema) && !newer && c.Store.Migrate == "auto":
		advice := "the first replica does the rest, see store.migrate"
		if applied == 0 {
			advice = "the first replica makes the tables, see store.migrate"
		}
		e.add("schema", levelWarning, advice, "%d of %d steps were applied", applied, len(steps))
		e.rights(ctx, st, true)
	case errors.Is(err, store.ErrSchema): // which says what to do
		e.add("schema", levelProblem, "", "%v", err)
	default:
		e.add("schema", levelProblem, unreadable, "%v", err)
	}
	return applied > 0
}

// rights tries whether the account may do what a replica does.
func (e *examination) rights(ctx context.Context, st *store.Store, migrate bool) {
	err := st.Sides().Admin.CheckRights(ctx, migrate)
	if err == nil {
		return
	}
	if st.Sides().Replica.Local() {
		e.add("store", levelProblem, "", "%v", err) // which says what to do
		return
	}
	advice := "give the account SELECT, INSERT, UPDATE and DELETE on the tables"
	if migrate {
		advice += ", and CREATE, ALTER, INDEX and DROP, or run \"scheduler migrate up\" with one that has it"
	}
	if unanswered(err) {
		advice = connect
	}
	e.add("store", levelProblem, advice, "%v", err)
}

// What to do about a lock service of which not all is known.
const (
	withTables = "look again once there are tables"
	withStore  = "look again once the store answers"
)

// sameLocks is what to do about replicas that lock at different places.
const sameLocks = "write the same lock section for all"

// replicas compares where those that live lock.
func (e *examination) replicas(ctx context.Context, p *parts) {
	peers, err := p.store.Sides().Replica.Peers(ctx)
	if err != nil {
		if !errors.Is(p.store.CheckSchema(ctx), store.ErrSchema) { // else it was said
			e.add("replicas", levelProblem, unreadable, "%v", err)
		}
		return
	}
	live := 0
	for _, peer := range peers {
		if peer.Dead {
			continue
		}
		live++
		if peer.LockService != p.service && p.service != "" {
			e.add("replicas", levelProblem, sameLocks, "%s locks at another place: %s", peer.Replica, peer.LockService)
		}
	}
	e.add("replicas", levelOK, "", "%s on this store", count(live, "live replica"))
}

// commands says what becomes of commands when their replica dies.
func (e *examination) commands() {
	const without = "use Linux, with /proc and /dev/null, where that matters, or let what they do check LOCKSTEP_FENCING_TOKEN"
	if !exechandler.CanWarden() {
		e.add("commands", levelWarning, without, "on this system the commands of a replica that is killed or frozen go on: nothing ends them")
		return
	}
	e.add("commands", levelOK, "", "they end with the replica that started them, when it is killed or frozen, too")
}

// startable says which commands that this replica may be asked to run could not be started here now.
func (e *examination) startable(c *config.Config) {
	look := func(what string, h jobs.Handler) {
		command, is := unwrap.As[*exechandler.Handler](h)
		if !is {
			return
		}
		if err := command.Check(); err != nil {
			e.add("commands", levelWarning, "correct the configuration, or see to it before it is due", "%s: %v", what, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Set.Jobs)) {
		if job := c.Set.Jobs[name]; ledger.Matches(job.RunsOn, c.Replica.Labels) {
			look("job "+name, job.Handler)
			look("notify of job "+name, job.Notify.Handler)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Set.Pools)) {
		pool := c.Set.Pools[name]
		look("pool "+name, pool.Handler)
		look("notify of pool "+name, pool.Notify.Handler)
		for _, kind := range slices.Sorted(maps.Keys(pool.Kinds)) {
			look("kind "+kind+" of pool "+name, pool.Kinds[kind])
		}
	}
}
