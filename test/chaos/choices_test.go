package chaos

import (
	"strings"
	"testing"

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
