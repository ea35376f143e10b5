//go:build linux

// Command ledger is the command of jobs and tasks of a chaos run. It logs its start, a beat every 100 ms, and
// its end, one line of history.Effect for each write.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	file := flag.String("file", "", "append to `FILE`")
	takes := flag.Duration("takes", 0, "work for so long")
	upto := flag.Duration("upto", 0, "or longer, up to so long")
	fails := flag.Int("fails", 0, "so many attempts fail, the first ones")
	ignoresTerm := flag.Bool("ignore-term", false, "ignore SIGTERM")
	astray := flag.Bool("astray", false, "a child with a session of its own does the work")
	child := flag.Bool("child", false, "be that child")
	flag.Parse()
	log, err := history.OpenLog[history.Effect](filepath.Dir(*file), filepath.Base(*file))
	if err != nil {
		return err
	}
	defer log.Close()
	e := self()
	write := func(what string) error {
		e.What, e.At = what, time.Now()
		return log.Add(e)
	}
	if *ignoresTerm {
		signal.Ignore(syscall.SIGTERM)
	}
	if !*child {
		if err := write(history.Start); err != nil {
			return err
		}
		fmt.Printf("token %d\n", e.Token) // its output says whose it is
		if err := told(takes, fails); err != nil {
			return err
		}
	}
	if *upto > *takes {
		*takes += rand.N(*upto - *takes) //nolint:gosec // a length, not a secret
	}
	if *astray {
		if err := delegate(*file, *takes); err != nil {
			return err
		}
	} else {
		for end := time.Now().Add(*takes); time.Now().Before(end); {
			time.Sleep(min(100*time.Millisecond, time.Until(end)))
			if err := write(history.Beat); err != nil {
				return err
			}
		}
	}
	if *child {
		return nil
	}
	e.Fails = e.Attempt <= *fails
	if err := write(history.End); err != nil {
		return err
	}
	if e.Fails {
		return fmt.Errorf("attempt %d failed as configured", e.Attempt)
	}
	return nil
}

// self is the attempt, by its environment.
func self() history.Effect {
	attempt, _ := strconv.Atoi(os.Getenv("LOCKSTEP_ATTEMPT"))
	token, _ := strconv.ParseInt(os.Getenv("LOCKSTEP_FENCING_TOKEN"), 10, 64)
	at, _ := time.Parse(time.RFC3339Nano, os.Getenv("LOCKSTEP_SCHEDULED_AT")) // empty for tasks of clients
	return history.Effect{
		LockToken: lockToken(),
		Key:       os.Getenv("LOCKSTEP_IDEMPOTENCY_KEY"), Job: os.Getenv("LOCKSTEP_JOB"), Pool: os.Getenv("LOCKSTEP_POOL"),
		TaskID: os.Getenv("LOCKSTEP_TASK_ID"), ScheduledAt: at, Attempt: attempt, Token: token,
		Replica: os.Getenv("LOCKSTEP_REPLICA"), PID: os.Getpid(),
	}
}

// lockToken is the token of the one lock that the attempt holds; 0: none.
func lockToken() (token int64) {
	var tokens map[string]int64
	_ = json.Unmarshal([]byte(os.Getenv("LOCKSTEP_LOCK_TOKENS")), &tokens) // empty without locks
	for _, token = range tokens {
	}
	return token
}

// told reads the wishes of a client for its task from the payload, if there is one.
func told(takes *time.Duration, fails *int) error {
	text, err := io.ReadAll(os.Stdin)
	if err != nil || len(text) == 0 {
		return err
	}
	var does history.Does
	if err := json.Unmarshal(text, &does); err != nil {
		return fmt.Errorf("payload %q: %w", text, err)
	}
	if does.Takes != "" {
		if *takes, err = time.ParseDuration(does.Takes); err != nil {
			return err
		}
	}
	*fails = max(*fails, does.Fails)
	if does.IgnoresTerm {
		signal.Ignore(syscall.SIGTERM)
	}
	return nil
}

// delegate has a child with a session of its own do the work, and waits for it.
func delegate(file string, takes time.Duration) error {
	cmd := exec.Command(os.Args[0], "-file", file, "-takes", takes.String(), "-child")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd.Run()
}
