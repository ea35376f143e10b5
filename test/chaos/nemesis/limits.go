//go:build linux

package nemesis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockstep-scheduler/lockstep/test/chaos/arena"
	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

var poor = []history.Kind{history.StoreSlow, history.LockSlow}

// famines take resources of the machine from replicas.
func famines() []Nemesis {
	return []Nemesis{
		{Name: "no-descriptors", subject: replica, Kinds: poor, Hold: 10 * time.Second, Strike: takeDescriptors},
		{Name: "busy-cores", subject: other, Kinds: poor, Machine: true, Hold: 10 * time.Second, Strike: spin},
	}
}

// bound is a limit of a process, and what it was before.
type bound struct {
	pid, resource int
	before        unix.Rlimit
}

func limit(pid, resource int, n uint64) (b bound, err error) {
	b = bound{pid: pid, resource: resource}
	if err := unix.Prlimit(pid, resource, nil, &b.before); err != nil {
		return b, fmt.Errorf("limit process %d: %w", pid, err)
	}
	if err := unix.Prlimit(pid, resource, &unix.Rlimit{Cur: n, Max: b.before.Max}, nil); err != nil {
		return b, fmt.Errorf("limit process %d: %w", pid, err)
	}
	return b, nil
}

// lift gives back what the limit took; a process that is gone needs nothing.
func (b bound) lift() error {
	if err := unix.Prlimit(b.pid, b.resource, &b.before, nil); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("lift the limit of process %d: %w", b.pid, err)
	}
	return nil
}

// limitFiles refuses what the replicas write to files, as a full disk does.
func limitFiles(a *arena.Arena) (Struck, error) {
	var bounds []bound
	lift := func() (err error) {
		for _, b := range bounds {
			err = errors.Join(err, b.lift())
		}
		return err
	}
	for _, r := range a.Replicas {
		if !r.Alive() {
			continue
		}
		b, err := limit(r.PID(), unix.RLIMIT_FSIZE, 0)
		if err != nil {
			return Struck{}, errors.Join(err, lift())
		}
		bounds = append(bounds, b)
	}
	return Struck{Heal: func(context.Context) (bool, string, error) {
		return len(bounds) > 0, fmt.Sprintf("%d replicas could not write to files", len(bounds)), lift()
	}}, nil
}

// takeDescriptors lets a replica open nothing more. Its effect is seen in the log of the replica, and by new
// connections that it does not accept.
func takeDescriptors(ctx context.Context, a *arena.Arena, r *rand.Rand) (Struck, error) {
	victim, err := pick(a, r)
	if err != nil {
		return Struck{}, err
	}
	before := complaints(a.Dir, victim.ID)
	pid := victim.PID()
	has := arena.Descriptors(pid)
	const none = 3 // lower numbers are certainly in use
	b, err := limit(pid, unix.RLIMIT_NOFILE, none)
	if err != nil {
		return Struck{}, err
	}
	mute := make(chan int, 1)
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		n := 0
		for pause := time.NewTicker(time.Second); watching.Err() == nil; {
			if !answers(watching, victim.URL()+"/healthz") && watching.Err() == nil {
				n++
			}
			select {
			case <-pause.C:
			case <-watching.Done():
				pause.Stop()
			}
		}
		mute <- n
	}()
	return Struck{Replicas: ids(victim), Heal: func(context.Context) (bool, string, error) {
		stop()
		refused, complained := <-mute, complaints(a.Dir, victim.ID)-before
		evidence := fmt.Sprintf("%s could open no file beside its %d: it complained %d times, and did not answer %d new connections", victim.ID, has, complained, refused)
		return complained+refused > 0, evidence, b.lift()
	}}, nil
}

// complaints counts the lines about missing descriptors in the logs of a replica.
func complaints(dir, replica string) (n int) {
	logs, _ := filepath.Glob(filepath.Join(dir, history.LogsDir, replica+"-*.log"))
	for _, log := range logs {
		text, _ := os.ReadFile(log) // one that cannot be read says nothing
		n += strings.Count(string(text), unix.EMFILE.Error())
	}
	return n
}

// answers reports whether a request over a new connection gets an answer soon.
func answers(ctx context.Context, url string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	request.Close = true
	fresh := &http.Transport{DisableKeepAlives: true}
	answer, err := fresh.RoundTrip(request)
	if err != nil {
		return false
	}
	_ = answer.Body.Close() // only that there is an answer counts
	return true
}

// spin keeps every core busy with something else.
func spin(_ context.Context, _ *arena.Arena, _ *rand.Rand) (Struck, error) {
	var loops []*exec.Cmd
	end := func() {
		for _, loop := range loops {
			_ = loop.Process.Kill() // it does not end by itself
			_ = loop.Wait()
		}
	}
	for range runtime.NumCPU() {
		loop := exec.Command("sh", "-c", "while :; do :; done")
		if err := servers.Start(loop); err != nil {
			end()
			return Struck{}, err
		}
		loops = append(loops, loop)
	}
	return Struck{Heal: func(context.Context) (bool, string, error) {
		busy := !slices.ContainsFunc(loops, func(loop *exec.Cmd) bool { return state(loop.Process.Pid) != "R" })
		end()
		return busy, fmt.Sprintf("%d loops ran", len(loops)), nil
	}}, nil
}
