package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/api"
	"github.com/lockstep-scheduler/lockstep/api/page"
	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
)

func newServeCommand(a *app) *cobra.Command {
	var listen, id string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run one replica",
		Long: "Run one replica until SIGTERM or SIGINT, which drain it: it claims nothing more and lets work finish.\n" +
			"A second signal stops it at once. A closed terminal drains it, too; any other SIGHUP loads the\n" +
			"configuration again, as 'scheduler reload' does, and, unless it has watch: false, a change of its files.\n" +
			"Start any number of replicas on the same file, each with its own --listen.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.loadWith(config.Options{Reloadable: true})
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("listen") {
				c.Server.Listen = listen
				if err := c.Server.Check(); err != nil {
					return usagef("--listen: %v", err)
				}
			}
			if id != "" {
				if !naming.Pattern.MatchString(id) {
					return usagef("--id %q: %s", id, naming.Hint)
				}
				c.Replica.ID = id
			}
			return a.serve(cmd.Context(), c)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "", "`ADDRESS` of the API, host:port (default from the file)")
	cmd.Flags().StringVar(&id, "id", "", "replica `ID`, unique among live replicas (default from the file, else <host>-<8 hex>)")
	return cmd
}

// serve runs one replica until a signal.
//
//  1. open the listener, the store and the lock service
//  2. run side by side: the API, the metrics and the scheduler
//  3. drain at the first signal, stop at once at the second
//  4. when the scheduler has ended, stop the API and the metrics
//  5. flush the audit, and close what was opened
func (a *app) serve(ctx context.Context, c *config.Config) (err error) {
	log := newLogger(a.stderr)
	if keep, _ := a.env("LOCKSTEP_DUMPABLE"); keep != "true" {
		disableDump()
	}
	closeInherited()
	hangups, console := make(chan os.Signal, 1), openConsole()
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		signal.Notify(hangups, syscall.SIGHUP)
		defer signal.Stop(hangups)
	}
	broken := make(chan os.Signal, 1) // a closed log pipe does not end the replica
	signal.Notify(broken, syscall.SIGPIPE)
	defer signal.Stop(broken)
	listener, err := net.Listen("tcp", c.Server.Listen)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w\nAnother replica may be listening there: give this one another address, as in --listen 127.0.0.1:8099", err)
	} else if err != nil {
		return err
	}
	defer listener.Close()
	srv, err := newAPIServer(c.Server, log)
	if err != nil {
		return err
	}
	limits := newCommandLimits(log) // before another process is started
	limits.loaded(c.Set)
	file := newConfiguration(c, a.opened, a.environ, log)
	defer file.close()
	file.limits = limits
	if srv.descriptors = newDescriptors(c.Replica.Workers); srv.descriptors.short() != "" {
		log.Warn("few descriptors", "why", srv.descriptors.short())
	}
	p, err := openParts(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.closeDrained(ctx, c.Lock.TTL, log)) }()
	logExposed(c.Store, log)
	s, err := p.replica(c, file.written(), listener.Addr().String(), log)
	if err != nil {
		return err
	}
	file.replica = s
	backend := api.Backend{Store: p.store, Replica: s, Locks: p, Audit: true, Reload: func(ctx context.Context, activate bool) (wire.Reloaded, error) {
		if err := srv.reload(); err != nil {
			return wire.Reloaded{}, err
		}
		return file.reload(ctx, activate)
	}}
	options := api.Options{Logger: log, Page: page.Handler(), Metrics: p.metrics.Handler()}
	srv.configure(&options)
	if srv.cert != nil {
		p.metrics.Certificate(srv.cert.end)
	}
	if weak := c.Weak(); weak != nil {
		log.Warn("insecure", "why", strings.Join(weak, "; "))
		options.Conditions = withWeak(options.Conditions, weak)
	}
	options.Conditions = withLongLog(options.Conditions, c.Store)
	options.Conditions = withConfiguration(options.Conditions, file)
	options.Conditions = withLimits(options.Conditions, limits)
	p.metrics.Configuration(file.usable)
	handler := api.New(backend, options)

	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	served := make(chan error, 1)
	go func() { served <- srv.serve(serving, listener, handler) }()
	measured := make(chan error, 1)
	go func() { measured <- p.metrics.Run(serving, s) }()
	var following sync.WaitGroup
	following.Go(func() { file.follow(serving) })
	defer following.Wait()
	defer stopServing()
	if p.lockErr != nil {
		log.Warn("lock service unreachable; starting without it", "meanwhile", whileDown(c.Lock.WhenDown), "error", p.lockErr)
	}
	collectLater(a.env)
	log.Info("listening", "url", srv.url(listener), "replica", s.ID(), "store", c.Store.Driver, "lock", p.service)

	running, drain := context.WithCancel(ctx)
	defer drain()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)
	watching := make(chan struct{})
	halted := false
	go func() {
		defer close(watching)
		handleSignals(signals, hangups, func() (closed bool) {
			if closed = console.closed(); closed {
				log.Warn("terminal closed; draining")
			}
			return closed
		}, func() {
			if running.Err() == nil {
				_ = srv.reload() // both log what comes of them
				_, _ = file.reload(running, false)
			}
		}, drain, func() { halted = true; s.Halt() })
	}()
	err = s.Run(running)
	if errors.Is(err, ledger.ErrLockService) {
		err = fmt.Errorf("%w: %s", err, sameLockSection)
	}
	if errors.Is(err, ledger.ErrReplicaLive) {
		err = fmt.Errorf("%w: give this one another --id, or remove replica.id from its configuration: each replica then generates its id", err)
	}
	drain()
	signal.Stop(signals)
	close(signals)
	<-watching
	if halted {
		err = errors.Join(err, errors.New("stopped by a second signal, running attempts were killed: 'scheduler tasks list --state lost' shows the tasks that are not retried"))
	}
	stopServing()
	err = errors.Join(err, <-served, <-measured)
	handler.Flush(context.WithoutCancel(ctx))
	if err == nil {
		log.Info("stopped", "replica", s.ID())
	}
	return err
}

// sameSignal is how soon after the first a second signal counts as the same: timeout(1) signals its child and then the
// child's process group.
const sameSignal = 500 * time.Millisecond

// handleSignals drains at the first signal and halts at the second, until signals is closed. SIGHUP is not counted: a
// closed terminal may send several. Where the terminal was not closed it is a request to reload. A reload holds up no signal: it runs beside, one at a
// time; requests during one are met by one more. handleSignals returns when it has ended.
func handleSignals(signals, hangups <-chan os.Signal, closed func() bool, reload, drain, halt func()) {
	asked := make(chan struct{}, 1)
	var reloads sync.WaitGroup
	reloads.Go(func() {
		for range asked {
			reload()
		}
	})
	defer reloads.Wait()
	defer close(asked)
	var drained time.Time
	for {
		select {
		case <-hangups:
			if closed() {
				drain()
				continue
			}
			select {
			case asked <- struct{}{}:
			default:
			}
			continue
		case _, more := <-signals:
			if !more {
				return
			}
		}
		switch {
		case drained.IsZero():
			drained = time.Now()
			drain()
		case time.Since(drained) >= sameSignal:
			halt()
		}
	}
}

// newLogger writes text to a terminal, else JSON.
func newLogger(w io.Writer) *slog.Logger {
	if isTerminal(w) {
		return slog.New(slog.NewTextHandler(w, nil))
	}
	return slog.New(slog.NewJSONHandler(w, nil))
}
