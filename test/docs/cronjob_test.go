package docs

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/exechandler"
)

// cronJob is what the page's manifest has of a CronJob of batch/v1.
type cronJob struct {
	Metadata struct {
		Name   string            `yaml:"name"`
		Labels map[string]string `yaml:"labels"`
	} `yaml:"metadata"`
	Spec struct {
		Schedule    string `yaml:"schedule"`
		TimeZone    string `yaml:"timeZone"`
		Concurrency string `yaml:"concurrencyPolicy"`
		Deadline    int    `yaml:"startingDeadlineSeconds"`
		Suspend     bool   `yaml:"suspend"`
		Job         struct {
			Spec struct {
				BackoffLimit int `yaml:"backoffLimit"`
				Deadline     int `yaml:"activeDeadlineSeconds"`
				Template     struct {
					Spec struct {
						Grace      int               `yaml:"terminationGracePeriodSeconds"`
						Nodes      map[string]string `yaml:"nodeSelector"`
						Containers []struct {
							Command, Args []string
							WorkingDir    string `yaml:"workingDir"`
							Env           []struct{ Name, Value string }
						} `yaml:"containers"`
					} `yaml:"spec"`
				} `yaml:"template"`
			} `yaml:"spec"`
		} `yaml:"jobTemplate"`
	} `yaml:"spec"`
}

// The configuration of the page has the values of the manifest beside it.
func TestCronJob(t *testing.T) {
	t.Parallel()
	const page = "docs/moving-from/kubernetes-cronjob.md"
	all := blocks(t, page)
	find := func(part string) string {
		t.Helper()
		i := slices.IndexFunc(all, func(b block) bool { return b.language == "yaml" && strings.Contains(b.body, part) })
		if i < 0 {
			t.Fatalf("%s has no block of YAML with %q", page, part)
		}
		return all[i].body
	}
	var theirs cronJob
	if err := yaml.Unmarshal([]byte(find("kind: CronJob")), &theirs); err != nil {
		t.Fatal(err)
	}
	ours, err := config.LoadBytes("lockstep.yaml", []byte(find("version: 1")), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	spec := theirs.Spec.Job.Spec
	pod := spec.Template.Spec
	if len(pod.Containers) != 1 {
		t.Fatalf("containers: %+v", pod.Containers)
	}
	container := pod.Containers[0]
	seconds := func(n int) time.Duration { return time.Duration(n) * time.Second }
	env := map[string]string{}
	for _, v := range container.Env {
		env[v.Name] = v.Value
	}
	want := jobs.Job{
		Schedule: theirs.Spec.Schedule, Timezone: theirs.Spec.TimeZone, Concurrency: jobs.Concurrency(strings.ToLower(theirs.Spec.Concurrency)), Suspend: theirs.Spec.Suspend,
		CatchUp: jobs.CatchUp{Policy: jobs.CatchUpLatest, Window: seconds(theirs.Spec.Deadline)},
		Retries: jobs.Retries{Limit: spec.BackoffLimit, Backoff: 10 * time.Second, MaxBackoff: 6 * time.Minute}, // as Jobs wait
		Timeout: seconds(spec.Deadline), OnLost: jobs.LostRetries, RunsOn: pod.Nodes, Labels: theirs.Metadata.Labels,
	}
	if names := slices.Collect(maps.Keys(ours.Set.Jobs)); !slices.Equal(names, []string{theirs.Metadata.Name}) {
		t.Fatalf("jobs are %q, not %q", names, theirs.Metadata.Name)
	}
	got := ours.Set.Jobs[theirs.Metadata.Name]
	handler, err := exechandler.New(exechandler.Command{Argv: slices.Concat(container.Command, container.Args), Dir: container.WorkingDir, Env: env, StopGrace: seconds(pod.Grace)})
	if err != nil {
		t.Fatal(err)
	}
	if !handler.Same(got.Handler) {
		t.Errorf("the handler is not that of the manifest: %+v", got.Handler)
	}
	got.Handler = nil
	if diff := cmp.Diff(want.WithDefaults(), got.WithDefaults()); diff != "" {
		t.Errorf("(-manifest +configuration):\n%s", diff)
	}
}
