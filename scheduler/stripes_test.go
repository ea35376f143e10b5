package scheduler

import (
	"fmt"
	"slices"
	"testing"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

func TestAssignSpreadsAndMovesLittle(t *testing.T) {
	var replicas []string
	for i := range 5 {
		replicas = append(replicas, fmt.Sprintf("host-%d", i))
	}
	owners := func(replicas []string) map[int]string {
		by := map[int]string{}
		for _, id := range replicas {
			for _, n := range assign(id, replicas) {
				if by[n] != "" {
					t.Fatalf("stripe %d belongs to %s and %s", n, by[n], id)
				}
				by[n] = id
			}
		}
		if len(by) != jobs.Stripes {
			t.Fatalf("%d of %d stripes have an owner", len(by), jobs.Stripes)
		}
		return by
	}
	before := owners(replicas)
	for _, id := range replicas {
		if n := len(assign(id, replicas)); n < 4 || n > 28 {
			t.Errorf("%s looks after %d of %d stripes", id, n, jobs.Stripes)
		}
	}
	after := owners(slices.Delete(slices.Clone(replicas), 2, 3))
	for n, id := range before {
		if id != "host-2" && after[n] != id {
			t.Errorf("stripe %d moved from %s to %s though %s stayed", n, id, after[n], id)
		}
	}
}
