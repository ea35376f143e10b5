package store

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/paging"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// A page ends by what its tasks take in JSON, where some letters take more than one byte.
func TestPagesAreMeasuredInJSON(t *testing.T) {
	for c := range byte(0x80) {
		if c == '\b' || c == '\f' { // two bytes, which is near enough
			continue
		}
		text := strings.Repeat(string(rune(c)), 3)
		written, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		want := len(written) - len(`""`)
		if got := inJSON(text); got != want {
			t.Errorf("%q takes %d bytes, want %d", text, got, want)
		}
		of := func(task jobs.Task) int { return sizeOfTask(task) - sizeOfTask(jobs.Task{}) }
		for name, got := range map[string]int{
			"payload": of(jobs.Task{Payload: []byte(text)}), "error": of(jobs.Task{Error: text}), "reason": of(jobs.Task{Reason: text}),
			"who made it": of(jobs.Task{By: text}), "a tag": of(jobs.Task{Tags: []string{text}}), "two tags": of(jobs.Task{Tags: []string{text, text}}) / 2,
		} {
			if got != want {
				t.Errorf("%q as %s counts %d, want %d", text, name, got, want)
			}
		}
	}
}

// interrupted is a dialect that does something before a statement, the first of which is 1.
type interrupted struct {
	sqlkit.Dialect
	sent, at int
	do       func()
}

func (i *interrupted) Args(args []any) []any {
	if i.sent++; i.sent == i.at {
		i.do()
	}
	return i.Dialect.Args(args)
}

// A page has each task that was there all the time once, with its cursor, whatever becomes of others between its
// statements, and ends after 1 MiB.
func TestPagesOfWhatMoves(t *testing.T) {
	const rows, ended = 3, 4 // statements, behind two for the ids, of which a state needs one
	half := paging.Bytes/2 - 512
	for name, c := range map[string]struct {
		errors []int // how long those of the tasks are, of which the first stands first
		state  jobs.State
		at     int
		does   []string
		want   []int
		more   bool
	}{
		"as it is":                            {[]int{0, 0, 0}, "", 0, nil, []int{0, 1, 2}, false},
		"none":                                {nil, "", 0, nil, []int{}, false},
		"one is swept":                        {[]int{0, 0, 0}, "", rows, []string{"DELETE FROM {tasks} WHERE id='t8'"}, []int{0, 2}, false},
		"one is claimed":                      {[]int{0, 0, 0}, jobs.StatePending, rows - 1, []string{"UPDATE {tasks} SET state=2 WHERE id='t8'"}, []int{0, 2}, false},
		"the page is full to the byte":        {[]int{half, half, 0}, "", 0, nil, []int{0, 1}, true},
		"one byte more":                       {[]int{half, half + 1, 0}, "", 0, nil, []int{0}, true},
		"one takes more than a page":          {[]int{2 * paging.Bytes, 0}, "", 0, nil, []int{0}, true},
		"a long one ends with a short error":  {[]int{half, half + 1, 0, 0}, "", ended, []string{ended9, "DELETE FROM {tasks} WHERE id='t9'"}, []int{0, 1}, true},
		"a long one ends before it was found": {[]int{half, half + 1, 0}, "", rows, []string{ended9, "DELETE FROM {tasks} WHERE id='t9'"}, []int{0, 1, 2}, false},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "a.db")
			s, other := migrated(t, "sqlite", file, Options{}), migrated(t, "sqlite", file, Options{})
			write := func(text string, args ...any) {
				t.Helper()
				if err := other.sure(t.Context(), "test", func(t *tx) error { _, err := t.Exec(text, args...); return err }); err != nil {
					t.Error(err)
				}
			}
			id := func(i int) string { return fmt.Sprint("t", 9-i) }
			for i, n := range c.errors {
				write(`INSERT INTO {tasks} (id, pool, state, run_at, payload, tags, error, created_at) VALUES (?, 'p', 0, 1, '', '', ?, 1)`, id(i), []byte(strings.Repeat("x", n)))
			}
			s.db.Dialect = &interrupted{Dialect: s.db.Dialect, at: c.at, do: func() {
				for _, text := range c.does {
					write(text)
				}
			}}
			tasks, next, err := s.Tasks(t.Context(), wire.TaskFilter{State: c.state})
			if err != nil {
				t.Fatal(err)
			}
			var got, want []string
			for _, task := range tasks {
				got = append(got, task.ID)
			}
			for _, i := range c.want {
				want = append(want, id(i))
			}
			after := ""
			if c.more {
				after = paging.Cursor("task", want[len(want)-1])
			}
			if !slices.Equal(got, want) || next != after || tasks == nil {
				t.Errorf("the page has %q, and the next one begins behind %q, want %q and %q", got, next, want, after)
			}
		})
	}
}

// ended9 inserts the end of a task, whose error is short.
const ended9 = `INSERT INTO {done} (id, pool, kind, job, trigger_at, trigger_seq, state, rank_order, run_at, attempt, failures, losses, max_attempts, on_lost, token,
		session_id, replica, idem_key, payload, tags, retry_of, reason, error, created_at, started_at, finished_at)
		VALUES ('t9', 'p', '', '', 0, 0, 'failed', 0, 1, 1, 0, 0, 1, 'fail', 1, '', '', '', '', '', '', '', '', 1, 1, 1)`

// Of a page of long errors no more is read than fits.
func TestPagesReadWhatFits(t *testing.T) {
	s := migrated(t, "sqlite", filepath.Join(t.TempDir(), "a.db"), Options{})
	var ids []string
	err := s.tx(t.Context(), "test", func(t *tx) error {
		for i := range 9 {
			ids = append(ids, fmt.Sprint("t", 9-i))
			_, err := t.Exec(`INSERT INTO {tasks} (id, pool, state, run_at, payload, tags, error, created_at) VALUES (?, 'p', 0, 1, '', '', ?, 1)`,
				ids[i], []byte(strings.Repeat("x", paging.Bytes/2)))
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	err = s.read(t.Context(), "test", func(tx *tx) error {
		rows, last, err := tx.listed(ids)
		if len(rows) != 2 || last != "t8" {
			t.Errorf("%d rows are read, the last one is %q", len(rows), last)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
