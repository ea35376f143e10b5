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
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/api"
	"github.com/lockstep-scheduler/lockstep/api/page"
	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
)

func newServeCommand(a *app) *cobra.Command {
	var listen, id string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run one replica",
		Long: "Run one replica until SIGTERM or SIGINT, which drain it: it takes nothing more and lets work finish.\n" +
			"A second signal stops it at once. A terminal that is closed drains it, too; any other SIGHUP is ignored,\n" +
			"since a configuration is not loaded again while a replica runs. Start as many replicas as you like on the\n" +
			"same file, each with its own --listen.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.loadConfig()
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
					return usagef("--id %q: up to 64 of a-z A-Z 0-9 . _ -, the first a letter or digit", id)
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

// serve runs one replica: parts, scheduler and API, until a signal.
func (a *app) serve(ctx context.Context, c *config.Config) (err error) {
	log := newLogger(a.stderr)
	if keep, _ := a.env("LOCKSTEP_DUMPABLE"); keep != "true" {
		shield()
	}
	keepToOurselves()
	hangups, console := make(chan os.Signal, 1), openConsole()
	if !signal.Ignored(syscall.SIGHUP) { // nohup
		signal.Notify(hangups, syscall.SIGHUP)
		defer signal.Stop(hangups)
	}
	broken := make(chan os.Signal, 1) // a log that nobody reads any more ends no replica
	signal.Notify(broken, syscall.SIGPIPE)
	defer signal.Stop(broken)
	listener, err := net.Listen("tcp", c.Server.Listen)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w\nAnother replica may be listening there: give this one an address of its own with --listen, as in --listen 127.0.0.1:8099", err)
	} else if err != nil {
		return err
	}
	defer listener.Close()
	door, err := newDoor(c.Server, log)
	if err != nil {
		return err
	}
	if door.descriptors = newDescriptors(c.Replica.Workers); door.descriptors.short() != "" {
		log.Warn("few descriptors", "why", door.descriptors.short())
	}
	p, err := openParts(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close(ctx)) }()
	tellExposed(c.Store, log)
	s, err := p.replica(c, listener.Addr().String(), log)
	if err != nil {
		return err
	}
	backend := api.Backend{Store: p.store, Replica: s, Locks: p, Audit: true}
	options := api.Options{Logger: log, Page: page.Handler(), Metrics: p.metrics.Handler()}
	door.guard(&options)
	if door.cert != nil {
		p.metrics.Certificate(door.cert.end)
	}
	if weak := c.Weak(); weak != nil {
		log.Warn("insecure", "why", strings.Join(weak, "; "))
		options.Conditions = withWeak(options.Conditions, weak)
	}
	options.Conditions = withLongLog(options.Conditions, c.Store)
	handler := api.New(backend, options)

	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	served := make(chan error, 1)
	go func() { served <- door.serve(serving, listener, handler) }()
	measured := make(chan error, 1)
	go func() { measured <- p.metrics.Run(serving, s) }()
	if p.away != nil {
		log.Warn("the lock service is away, and this replica starts without it", "until it is there", untilThere(c.Lock.WhenDown), "error", p.away)
	}
	log.Info("listening", "url", door.url(listener), "replica", s.ID(), "store", c.Store.Driver, "lock", p.service)

	running, drain := context.WithCancel(ctx)
	defer drain()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)
	watching := make(chan struct{})
	halted := false
	go func() {
		defer close(watching)
		obey(signals, hangups, func() {
			if console.closed() {
				log.Warn("the terminal was closed, so this replica drains")
				drain()
			} else {
				log.Warn("SIGHUP is ignored: a configuration is not loaded again while a replica runs; restart it to load a new file")
			}
		}, drain, func() { halted = true; s.Halt() })
	}()
	err = s.Run(running)
	if errors.Is(err, ledger.ErrLockService) {
		err = fmt.Errorf("%w: %s", err, sameLocks)
	}
	if errors.Is(err, ledger.ErrReplicaLive) {
		err = fmt.Errorf("%w: give this one another --id, or remove replica.id from its configuration: each replica makes an id of its own then", err)
	}
	drain()
	signal.Stop(signals)
	close(signals)
	<-watching
	if halted {
		err = errors.Join(err, errors.New("told twice to stop, so work that was under way was cut off: 'scheduler tasks list --state lost' shows what no replica runs again"))
	}
	stopServing()
	err = errors.Join(err, <-served, <-measured)
	handler.Flush(context.WithoutCancel(ctx))
	if err == nil {
		log.Info("stopped", "replica", s.ID())
	}
	return err
}

// onceWithin is how soon after the first signal another one is the same: timeout(1) signals its child, and then the
// group that the child is in.
const onceWithin = 500 * time.Millisecond

// obey drains at the first signal and halts at the second, until there are no more. Hang-ups, of which a
// terminal that is closed may send several, are not counted.
func obey(signals, hangups <-chan os.Signal, hangup, drain, halt func()) {
	var drained time.Time
	for {
		select {
		case <-hangups:
			hangup()
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
		case time.Since(drained) >= onceWithin:
			halt()
		}
	}
}

// newLogger writes text for people on a terminal, else JSON.
func newLogger(w io.Writer) *slog.Logger {
	if isTerminal(w) {
		return slog.New(slog.NewTextHandler(w, nil))
	}
	return slog.New(slog.NewJSONHandler(w, nil))
}
