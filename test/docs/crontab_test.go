package docs

import (
	"testing"

	"github.com/lockstep-scheduler/lockstep/config/crontab"
)

// Every crontab of a page can be imported whole, and what becomes of it loads.
func TestCrontab(t *testing.T) {
	for _, file := range pages(t) {
		for _, b := range blocks(t, file) {
			if b.language != "crontab" || b.notRun != "" {
				continue
			}
			table := crontab.Read(b.body, crontab.Options{Timezone: "UTC"})
			for _, r := range table.LeftOut {
				t.Errorf("%s: line %d: left out: %s", b.at(), r.Line, r.Text)
			}
			if problems := load(table.YAML()); len(problems) > 0 || len(table.Jobs) == 0 {
				t.Errorf("%s: %d jobs, %v", b.at(), len(table.Jobs), problems)
			}
		}
	}
}
