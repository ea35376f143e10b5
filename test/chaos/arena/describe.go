//go:build linux

package arena

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// Describe is the description of a run.
func (a *Arena) Describe(ctx context.Context) (history.Run, error) {
	namespace, err := a.jitterNamespace(ctx)
	r := history.Run{
		Namespace: namespace, Calendars: a.calendars,
		Format: history.Format, Cell: a.Cell.String(), Commit: commit(ctx), Versions: a.versions(ctx), Machine: machine(), Cores: runtime.NumCPU(),
		SessionTTL: SessionTTL, LockTTL: LockTTL, DrainTimeout: DrainTimeout, WhenDown: a.whenDown,
	}
	for _, j := range jobsOfRun() {
		r.Jobs = append(r.Jobs, j.Job)
	}
	r.Jobs = append(r.Jobs, addedToRun().Job)
	for _, p := range poolsOfRun() {
		r.Pools = append(r.Pools, p.Pool)
	}
	for _, replica := range a.Replicas {
		r.Replicas = append(r.Replicas, replica.ID)
	}
	return r, err
}

// commit names the source; empty outside of a repository.
func commit(ctx context.Context) string {
	id, err := exec.CommandContext(ctx, "git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return ""
	}
	name := strings.TrimSpace(string(id))
	if changes, err := exec.CommandContext(ctx, "git", "status", "--porcelain", "--untracked-files=no").Output(); err == nil && len(changes) > 0 {
		name += "-dirty"
	}
	return name
}

func (a *Arena) versions(ctx context.Context) map[string]string {
	v := map[string]string{"go": runtime.Version()}
	var kernel syscall.Utsname
	if syscall.Uname(&kernel) == nil {
		var text []byte
		for _, c := range kernel.Release {
			if c == 0 {
				break
			}
			text = append(text, byte(c))
		}
		v["kernel"] = string(text)
	}
	_ = a.database(func(db *sql.DB, _ dialect) error { // servers that do not answer are left out
		query := "SELECT VERSION()"
		if a.Store == nil {
			query = "SELECT sqlite_version()"
		}
		var version string
		err := db.QueryRowContext(ctx, query).Scan(&version)
		v[a.Cell.Store] = version
		return err
	})
	switch {
	case a.Redis != nil:
		v["redis"], _ = word(ctx, a.Redis.Addr, "INFO server\r\n", "redis_version:")
	case a.Quorum != nil:
		v["redis"], _ = word(ctx, a.Quorum[len(a.Quorum)-1].Addr, "INFO server\r\n", "redis_version:")
	case a.ZooKeeper != nil:
		v["zookeeper"], _ = word(ctx, a.ZooKeeper.Servers[0].Addr, "srvr", "Zookeeper version: ")
	}
	return v
}

// machine is what a run ran on.
func machine() string {
	text, _ := os.ReadFile("/proc/meminfo")
	memory, _, _ := strings.Cut(strings.TrimPrefix(string(text), "MemTotal:"), "\n")
	return fmt.Sprintf("%d cores, %s of memory", runtime.NumCPU(), strings.TrimSpace(memory))
}

// Processors is the time that this machine's processors had since it started, and the part of it that other
// machines on the same hardware took: both in one unit, to be compared with an earlier answer.
type Processors struct{ all, stolen float64 }

// ReadProcessors reads it.
func ReadProcessors() (Processors, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return Processors{}, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return parseProcessors(line)
}

// parseProcessors reads "cpu  user nice system idle iowait irq softirq steal guest guest_nice"; user has guest in it.
func parseProcessors(line string) (p Processors, err error) {
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return p, fmt.Errorf("%q is not how /proc/stat begins", line)
	}
	for i, field := range fields[1:9] {
		ticks, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return p, fmt.Errorf("/proc/stat: %w", err)
		}
		p.all += ticks
		if i == 7 {
			p.stolen = ticks
		}
	}
	return p, nil
}

// StolenSince is the part of the time since earlier that others took, 0 to 1.
func (p Processors) StolenSince(earlier Processors) float64 {
	return (p.stolen - earlier.stolen) / max(p.all-earlier.all, 1)
}

// Load is how many processes of this machine ran or waited for a processor, over the last minute.
func Load() (float64, error) {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(text), " ")
	return strconv.ParseFloat(first, 64)
}
