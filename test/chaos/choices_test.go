//go:build linux

package chaos

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/test/chaos/arena"
	"github.com/lockstep-scheduler/lockstep/test/chaos/nemesis"
	"github.com/lockstep-scheduler/lockstep/test/chaos/seeded"
)

// bugsNamed is the seeded bug of a name, or all of them without one.
func bugsNamed(name string) ([]seeded.Bug, error) {
	if name == "" {
		return seeded.All(), nil
	}
	b, err := seeded.Find(name)
	if err != nil {
		return nil, err
	}
	return []seeded.Bug{b}, nil
}

// cellsNamed are the cells of a list with commas, or all of them without one.
func cellsNamed(names string) (cells []arena.Cell, err error) {
	if names == "" {
		return slices.Clone(arena.Cells), nil
	}
	for name := range strings.SplitSeq(names, ",") {
		c, err := arena.ParseCell(strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		if !slices.Contains(cells, c) {
			cells = append(cells, c)
		}
	}
	return cells, nil
}

// windowsNamed are the windows of each cell, from a list with commas; a/b are two faults of one window. A fault
// that does not fit a cell is left out there; one that fits no cell is an error.
func windowsNamed(list string, cells []arena.Cell) (map[arena.Cell][][]nemesis.Nemesis, error) {
	all := map[arena.Cell][][]nemesis.Nemesis{}
	for names := range strings.SplitSeq(list, ",") {
		var faults []nemesis.Nemesis
		for name := range strings.SplitSeq(names, "/") {
			n, err := nemesis.Named(strings.TrimSpace(name))
			if err != nil {
				return nil, err
			}
			faults = append(faults, n)
		}
		fits := false
		for _, c := range cells {
			if !slices.ContainsFunc(faults, func(n nemesis.Nemesis) bool { return !n.FitsIn(c) }) {
				all[c], fits = append(all[c], faults), true
			}
		}
		if !fits {
			return nil, fmt.Errorf("%s fits none of %v", strings.TrimSpace(names), cells)
		}
	}
	return all, nil
}

func TestBugsNamed(t *testing.T) {
	if all, err := bugsNamed(""); err != nil || len(all) != len(seeded.All()) {
		t.Errorf("%d bugs, %v", len(all), err)
	}
	if one, err := bugsNamed("no-unique-key"); err != nil || len(one) != 1 || one[0].Name != "no-unique-key" {
		t.Errorf("%v, %v", one, err)
	}
	if got, err := bugsNamed("no-unique-kye"); err == nil || !strings.Contains(err.Error(), `"no-unique-kye"; there are no-unique-key, `) {
		t.Errorf("%d bugs, %v", len(got), err)
	}
}

func TestCellsNamed(t *testing.T) {
	if all, err := cellsNamed(""); err != nil || !slices.Equal(all, arena.Cells) {
		t.Errorf("%v, %v", all, err)
	}
	if got, err := cellsNamed("mariadb+redis, sqlite+sqlite,mariadb+redis"); err != nil || fmt.Sprint(got) != "[mariadb+redis sqlite+sqlite]" {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := cellsNamed("redis+mariadb"); err == nil || !strings.Contains(err.Error(), "there are mariadb+redis, ") {
		t.Error(err)
	}
}

func TestWindowsNamed(t *testing.T) {
	both, err := cellsNamed("mariadb+redis,sqlite+sqlite")
	if err != nil {
		t.Fatal(err)
	}
	got, err := windowsNamed("kill-parent, cut-store / redis-flushall", both)
	if err != nil || len(got[both[0]]) != 2 || len(got[both[0]][1]) != 2 || len(got[both[1]]) != 1 {
		t.Errorf("%v, %v", got, err)
	}
	for list, want := range map[string]string{
		"kill-parent,redis-flushall": "redis-flushall fits none of [sqlite+sqlite]",
		"kill-parent/cut-store":      "kill-parent/cut-store fits none of [sqlite+sqlite]",
		"kill-parnet":                `no nemesis "kill-parnet"; there are kill-parent, `,
		"kill-parent,":               `no nemesis ""; there are `,
	} {
		if got, err := windowsNamed(list, both[1:]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", list, got, err)
		}
	}
}
