//go:build linux

// Command locked is the command under "scheduler locks exec" in a chaos run. It logs its start, a beat every 50 ms, and its
// end, one line of history.Locked for each write.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
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
	name := flag.String("exec", "", "of the run of locks exec")
	takes := flag.Duration("takes", 0, "work for so long")
	astray := flag.Bool("astray", false, "a child with a session of its own does the work")
	child := flag.Bool("child", false, "be that child")
	flag.Parse()
	log, err := history.OpenLog[history.Locked](filepath.Dir(*file), filepath.Base(*file))
	if err != nil {
		return err
	}
	defer log.Close()
	token, _ := strconv.ParseInt(os.Getenv("LOCKSTEP_FENCING_TOKEN"), 10, 64) // the judge misses one that is not there
	write := func(what string) error {
		return log.Add(history.Locked{What: what, At: time.Now(), Exec: *name, Key: os.Getenv("LOCKSTEP_LOCK"), Token: token, PID: os.Getpid()})
	}
	if !*child {
		if err := write(history.Start); err != nil {
			return err
		}
	}
	if *astray {
		cmd := exec.Command(os.Args[0], "-file", *file, "-exec", *name, "-takes", takes.String(), "-child")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Run(); err != nil {
			return err
		}
	} else {
		for end := time.Now().Add(*takes); time.Now().Before(end); {
			time.Sleep(min(50*time.Millisecond, time.Until(end)))
			if err := write(history.Beat); err != nil {
				return err
			}
		}
	}
	if *child {
		return nil
	}
	return write(history.End)
}
