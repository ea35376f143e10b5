package manifests

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

// Compose accepts the file, and what it makes of it is closed: nothing is reachable from other
// machines, no password is in it, and a replica has the time that its drain may take.
func TestCompose(t *testing.T) {
	options, err := cli.NewProjectOptions([]string{deploy + "compose.yaml"}, cli.WithEnv(nil), cli.WithResolvedPaths(true))
	if err != nil {
		t.Fatal(err)
	}
	p, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	replicas := []string{"a", "b", "c"}
	if got := p.ServiceNames(); !slices.Equal(got, []string{"a", "b", "c", "mysql", "redis"}) {
		t.Fatalf("the services are %v", got)
	}
	limit := drainTimeout(t, read(t, "compose/lockstep.yaml")) + stopMargin
	ports := map[string]bool{}
	for name, s := range p.Services {
		closed(t, s)
		if !slices.Contains(replicas, name) {
			if len(s.Ports) > 0 || s.HealthCheck == nil || !pinned(s.Image) {
				t.Errorf("%s publishes %v, has the health check %v, and is %s", name, s.Ports, s.HealthCheck, s.Image)
			}
			continue
		}
		if s.StopGracePeriod == nil || time.Duration(*s.StopGracePeriod) < limit {
			t.Errorf("%s is killed after %v, and a drain may take %v", name, s.StopGracePeriod, limit)
		}
		if !s.ReadOnly || s.User != "65532:65532" || !slices.Equal(s.CapDrop, []string{"ALL"}) || s.Init == nil || !*s.Init {
			t.Errorf("%s is not closed: %+v", name, s)
		}
		if !slices.Equal(s.Command, types.ShellCommand{"serve", "--id", name}) {
			t.Errorf("%s runs %v", name, s.Command)
		}
		for _, server := range []string{"mysql", "redis"} {
			if s.DependsOn[server].Condition != types.ServiceConditionHealthy {
				t.Errorf("%s does not wait for %s", name, server)
			}
		}
		for _, port := range s.Ports {
			if port.HostIP != "127.0.0.1" || ports[port.Published] {
				t.Errorf("%s publishes %s:%s", name, port.HostIP, port.Published)
			}
			ports[port.Published] = true
		}
	}
	if len(ports) != len(replicas) {
		t.Errorf("%d replicas publish %d ports", len(replicas), len(ports))
	}
	if !p.Networks["servers"].Internal {
		t.Error("the servers can be reached, and reach, from outside")
	}
	for name, secret := range p.Secrets {
		if !strings.Contains(secret.File, "/deploy/compose/secrets/") {
			t.Errorf("the secret %s is not a file in the folder of secrets: %s", name, secret.File)
		}
	}
}

// closed holds for every service.
func closed(t *testing.T, s types.ServiceConfig) {
	t.Helper()
	if s.Privileged || s.Pid != "" || s.NetworkMode != "" || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
		t.Errorf("%s is not closed", s.Name)
	}
	for _, v := range s.Volumes {
		if strings.Contains(v.Source, "docker.sock") || v.Type == "bind" && !v.ReadOnly {
			t.Errorf("%s mounts %s", s.Name, v.Source)
		}
	}
	for key, value := range s.Environment {
		if strings.Contains(strings.ToLower(key), "password") && !strings.HasSuffix(key, "_FILE") && key != "MYSQL_RANDOM_ROOT_PASSWORD" {
			t.Errorf("%s has %s=%s among its variables", s.Name, key, *value)
		}
	}
}
