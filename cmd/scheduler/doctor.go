package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/metrics"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/store"
	"github.com/lockstep-scheduler/lockstep/store/sqlite"
)

// Levels of a finding.
const (
	levelOK      = "ok"
	levelWarning = "warning"
	levelProblem = "problem" // a replica would not start, or not work
)

// finding is the result of one check.
type finding struct {
	Check  string `json:"check"` // configuration, server, descriptors, store, schema, clock, lock, replicas or commands
	Level  string `json:"level"`
	Text   string `json:"text"`
	Advice string `json:"advice,omitempty"` // what to do
}

// examination is one run of doctor.
type examination struct{ findings []finding }

func newDoctorCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Check whether a replica would run here, and what it guarantees",
		Long: "Check the configuration, the store and its tables, the clocks, the lock service and this system: would a replica run,\n" +
			"what does it guarantee, and what is to be corrected? No replica is contacted.\n\n" +
			"That locks exclude, that those who wait are served in order, and that a lost client loses its lock in time is proved with clients\n" +
			"of the lock service, which takes a few seconds: they lock a key below user/doctor/, and release it. On MySQL they make the tables of\n" +
			"locks if those are missing. Nothing else is changed. Beside a SQLite database a file of 1 MiB is written and removed, to see that\n" +
			"there is room, and one with such locks; the database is opened to read it.\n\n" +
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
				return fmt.Errorf("doctor found %s", count(n, "problem"))
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
	return table(w, "LEVEL CHECK FINDING", e.findings, func(f finding) []string {
		text := f.Text
		if f.Advice != "" {
			text += ": " + f.Advice
		}
		return []string{f.Level, f.Check, text}
	})
}

func (e *examination) examine(ctx context.Context, c *config.Config) {
	e.add("configuration", levelOK, "", "%s has %s and %s", c.Path, count(len(c.Set.Jobs), "job"), count(len(c.Set.Pools), "pool"))
	for _, w := range c.Warnings {
		e.add("configuration", levelWarning, "", "%v", w)
	}
	for _, w := range c.Weak() {
		e.add("configuration", levelWarning, "remove insecure, and write what it stands for: the section tls, or auth_file", "insecure: %s", w)
	}
	missing, expiry, err := checkAPIServer(c.Server)
	if err != nil {
		e.add("server", levelProblem, "correct it", "%v", err)
	}
	for _, path := range missing {
		e.add("server", levelProblem, "create the file, or correct the path", "%s is not on this machine", path)
	}
	if expiry != "" {
		e.add("server", levelWarning, "replace it; or correct this machine's clock, if that is wrong", "%s", expiry)
	}
	e.listen(c.Server.Listen)
	e.descriptors(newDescriptors(c.Replica.Workers))
	p, again := e.store(ctx, c)
	switch {
	case p == nil && c.Set.Name != "" && !c.LockInStore(): // as "locks exec" does without the store
		p = &parts{}
		e.lock(ctx, c, p)
		_ = p.close(ctx)
	case p == nil:
		e.reach(ctx, c, again)
	default:
		e.lock(ctx, c, p)
		e.otherStores(ctx, p)
		e.replicas(ctx, p)
		if err := p.close(ctx); err != nil {
			e.add("store", levelWarning, "", "close: %v", err)
		}
	}
	e.commands()
	e.startable(c)
	e.commandLimits(c.Set)
}

// listen binds the API's address, and closes it at once.
func (e *examination) listen(address string) {
	listener, err := net.Listen("tcp", address)
	switch {
	case err == nil:
		_ = listener.Close()
	case errors.Is(err, syscall.EADDRINUSE):
		e.add("server", levelWarning, "a replica started here needs another address, see --listen",
			"%s is in use, by a running replica or another program", address)
	default:
		e.add("server", levelProblem, "correct server.listen", "%v", err)
	}
}

// store checks the database, and returns it if the lock service can be checked with it; else the advice for what cannot
// be checked.
func (e *examination) store(ctx context.Context, c *config.Config) (p *parts, again string) {
	if c.Store.Driver == config.SQLite && c.Store.DSN != ":memory:" {
		if _, err := os.Stat(c.Store.DSN); errors.Is(err, fs.ErrNotExist) {
			// Opening it would create it.
			if err := sqlite.Check(c.Store.DSN); err != nil {
				e.add("store", levelProblem, "", "%v", err)
				return nil, withStore
			}
			level, advice := levelWarning, "scheduler serve creates it"
			if c.Store.Migrate != "auto" {
				level, advice = levelProblem, `run "scheduler migrate up", or set store.migrate: auto`
			}
			e.add("store", level, advice, "%s does not exist yet, so its tables were not checked", c.Store.DSN)
			return nil, withTables
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
		return nil, withStore
	}
	e.add("store", levelOK, "", "%s answers after %v", c.Store.Driver, time.Since(began).Round(time.Millisecond))
	p = &parts{store: st, metrics: metrics.New(st, metrics.Options{Version: version()})}
	p.closers = append(p.closers, func(context.Context) error { return st.Close() })
	e.clock(ctx, c, st)
	if !e.schema(ctx, c, st) && c.Set.Name == "" && !c.LockInStore() {
		_ = p.close(ctx)
		return nil, withTables
	}
	return p, ""
}

// look opens the store; a SQLite file read-only, since a replica may be using it.
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
		e.add("clock", levelProblem, "grant the account SELECT", "%v", err)
		return
	}
	trip := time.Since(asked)
	apart := database.Sub(asked.Add(trip / 2)).Round(time.Millisecond)
	if limit := c.Replica.MaxClockSkew; apart.Abs() > limit+trip {
		e.add("clock", levelWarning, "correct NTP on the machine whose clock is wrong; replicas use the database's clock", "the database's clock is %v from this machine's", apart)
		return
	}
	e.add("clock", levelOK, "", "the database's clock is %v from this machine's", apart)
}

// connect is the advice for a server that cannot be reached.
const connect = "see that it runs and that the address and the account are right"

// correctAccount is the advice for a MySQL server that refuses the account.
const (
	correctAccount = "the server runs; correct the user, the password or the account, see docs/backends.md"
	accessDenied   = 1045
)

// unanswered reports whether err means an unreachable server, not a reply that explains itself.
func unanswered(err error) bool {
	_, network := errors.AsType[net.Error](err) // includes timeouts
	return network || errors.Is(err, jobs.ErrUnavailable) || errors.Is(err, driver.ErrUnreachable)
}

// unreadable is the advice for tables that should exist.
const unreadable = "check that the database answers, that no table was dropped, and that the account has SELECT"

// schema reports whether the tables exist.
func (e *examination) schema(ctx context.Context, c *config.Config, st *store.Store) bool {
	err := st.CheckSchema(ctx)
	steps, _ := st.Sides().Admin.MigrationStatus(ctx) // its error is in err
	applied := 0
	for _, s := range steps {
		if !s.AppliedAt.IsZero() {
			applied++
		}
	}
	newer := applied > 0 && len(steps) > 0 && steps[len(steps)-1].Unknown
	switch {
	case err == nil:
		e.add("schema", levelOK, "", "%d of %d migrations are applied", applied, len(steps))
		e.rights(ctx, st, false)
	case errors.Is(err, store.ErrSchema) && !newer && c.Store.Migrate == "auto":
		advice := "scheduler serve applies the rest, see store.migrate"
		if applied == 0 {
			advice = "scheduler serve creates the tables, see store.migrate"
		}
		e.add("schema", levelWarning, advice, "%d of %d migrations are applied", applied, len(steps))
		e.rights(ctx, st, true)
	case errors.Is(err, store.ErrSchema): // its text has the advice
		e.add("schema", levelProblem, "", "%v", err)
	default:
		e.add("schema", levelProblem, unreadable, "%v", err)
	}
	return applied > 0
}

// rights checks the account's permissions.
func (e *examination) rights(ctx context.Context, st *store.Store, migrate bool) {
	err := st.Sides().Admin.CheckRights(ctx, migrate)
	if err == nil {
		return
	}
	if st.Sides().Replica.Local() {
		e.add("store", levelProblem, "", "%v", err) // its text has the advice
		return
	}
	advice := "grant the account SELECT, INSERT, UPDATE and DELETE on the tables"
	if migrate {
		advice += ", and CREATE, ALTER, INDEX and DROP, or run \"scheduler migrate up\" with an account that has them"
	}
	if unanswered(err) {
		advice = connect
	}
	e.add("store", levelProblem, advice, "%v", err)
}

// Advice where part of the lock service could not be checked.
const (
	withTables = "run doctor again once the tables exist"
	withStore  = "run doctor again once the store answers"
)

// sameLockSection is the advice for replicas with different lock services.
const sameLockSection = "give all replicas the same lock section and, if only the namespaces differ, the same name: at the top; if their lock protocols differ, stop those of the other version first"

// replicas compares the lock services of live replicas.
func (e *examination) replicas(ctx context.Context, p *parts) {
	peers, err := p.store.Sides().Replica.Peers(ctx)
	if err != nil {
		if !errors.Is(p.store.CheckSchema(ctx), store.ErrSchema) { // else reported already
			e.add("replicas", levelProblem, unreadable, "%v", err)
		}
		return
	}
	live := 0
	for _, peer := range peers {
		if peer.Dead || peer.IsWorker() {
			continue
		}
		live++
		if p.service != "" && peer.LockService != scheduler.Fingerprint(p.service) {
			e.add("replicas", levelProblem, sameLockSection, "%s uses another lock service: %s", peer.Replica, peer.LockService)
		}
	}
	e.add("replicas", levelOK, "", "%s on this store", count(live, "live replica"))
}
