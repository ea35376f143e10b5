package store

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// JobStandings returns the standings of the live jobs, sorted by name.
func (s views) JobStandings(ctx context.Context) ([]ledger.JobStanding, error) {
	return get(ctx, s.view, "job standings", func(t *tx) ([]ledger.JobStanding, error) {
		all, unmet, err := t.jobStandings()
		return all, cmp.Or(err, t.firstUnmet(unmet))
	})
}

// jobStandings reads the rows, and names those that had a due time since their last success. Jobs
// that succeeded before there were standings are read from the ledger.
//
// Index: primary keys; MAX(at) of one job is the end of its range in that of triggers.
func (t *tx) jobStandings() (all []ledger.JobStanding, unmet []*ledger.JobStanding, err error) {
	var now time.Time // where the database does not tell it in the same statement
	if t.DB.Dialect.Local() {
		if now, err = t.Now(); err != nil {
			return nil, nil, err
		}
	}
	var last []int64 // due time that was decided
	err = each(t.rows(`SELECT j.name, j.cursor_at, j.due_at, j.next_at, j.waiting_at, j.suspended, j.suspended_until, COALESCE({now}, 0) AS read_at, COALESCE(s.failing, 0) AS failing, COALESCE(s.last_success_at, 0) AS last_success_at,
			COALESCE((SELECT MAX(m.at) FROM {triggers} m WHERE m.job = j.name), 0) AS last_at
		FROM {jobs} j LEFT JOIN {standings} s ON s.kind = 'job' AND s.name = j.name WHERE j.hash <> '' ORDER BY j.name`), func(m *struct {
		Job           jobModel `gorm:"embedded"`
		Failing       bool
		LastSuccessAt int64
		LastAt        int64
		ReadAt        int64
	}) {
		if m.ReadAt > 0 {
			now = fromMicros(m.ReadAt)
		}
		due, _ := m.Job.due()
		all = append(all, ledger.JobStanding{
			Name: m.Job.Name, NextAt: due, Suspended: m.Job.suspension().At(now).Suspended, Failing: m.Failing, LastSuccess: fromMicros(m.LastSuccessAt),
		})
		last = append(last, m.LastAt)
	})
	if err != nil {
		return nil, nil, err
	}
	before := map[string]*ledger.JobStatus{}
	for i, j := range all {
		if j.LastSuccess.IsZero() && last[i] > 0 {
			before[j.Name] = &ledger.JobStatus{}
		}
	}
	for part := range slices.Chunk(slices.Sorted(maps.Keys(before)), sqlkit.MaxRows) {
		if err := t.lastSuccesses(part, before); err != nil {
			return nil, nil, err
		}
	}
	for i := range all {
		j := &all[i]
		if b := before[j.Name]; b != nil {
			j.LastSuccess = b.LastSuccess
		}
		if last[i] > micros(j.LastSuccess) {
			unmet = append(unmet, j)
		}
	}
	return all, unmet, nil
}

// unmetPerStatement keeps a compound below SQLite's limit of 500 parts.
const unmetPerStatement = 100

// firstUnmet fills in Unmet. Each part of the compound ends at the first row that counts. Rows that are older than codes have
// none. The database must know the moments of the parts: for those of a list MySQL finds no range, and reads all rows of a job.
//
// Index: primary key of triggers, a range of it for each job.
func (t *tx) firstUnmet(jobs []*ledger.JobStanding) error {
	byName := make(map[string]*ledger.JobStanding, len(jobs))
	for _, j := range jobs {
		byName[j.Name] = j
	}
	const one = `SELECT * FROM (SELECT job, at FROM {triggers} WHERE job = ? AND at > ? AND seq = 0
		AND NOT (outcome = 'skipped' AND (reason_code IN ('suspended', 'skip_next') OR reason_code = '' AND reason = 'suspended')) ORDER BY job, at LIMIT 1) a`
	for part := range slices.Chunk(jobs, unmetPerStatement) {
		args := slices.Concat(sqlkit.Rows(part, func(j *ledger.JobStanding) []any { return []any{j.Name, micros(j.LastSuccess)} })...)
		err := each(t.rows(strings.Repeat(one+" UNION ALL ", len(part)-1)+one, args...), func(m *triggerModel) { byName[m.Job].Unmet = fromMicros(m.At) })
		if err != nil {
			return err
		}
	}
	return nil
}
