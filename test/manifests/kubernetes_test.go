package manifests

import (
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// manifests is what lies in deploy/kubernetes, by kind.
type manifests struct {
	deployment appsv1.Deployment
	service    corev1.Service
	config     corev1.ConfigMap
	budget     policyv1.PodDisruptionBudget
	secret     corev1.Secret
}

func load(t *testing.T) (m manifests) {
	t.Helper()
	kinds := map[string]any{
		"Deployment": &m.deployment, "Service": &m.service, "ConfigMap": &m.config,
		"PodDisruptionBudget": &m.budget, "Secret": &m.secret,
	}
	seen := map[string]bool{}
	for _, folder := range []string{"kubernetes/", "kubernetes/example/"} {
		files, err := os.ReadDir(deploy + folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if file.IsDir() {
				continue
			}
			text := []byte(read(t, folder+file.Name()))
			var of metav1.TypeMeta
			if err := yaml.Unmarshal(text, &of); err != nil {
				t.Fatalf("%s: %v", file.Name(), err)
			}
			into, known := kinds[of.Kind]
			if !known || seen[of.Kind] {
				t.Fatalf("%s: kind %q is not expected, or a second one", file.Name(), of.Kind)
			}
			seen[of.Kind] = true
			text, err := yaml.YAMLToJSONStrict(text)
			if err != nil {
				t.Fatalf("%s: %v", file.Name(), err)
			}
			strict, err := json.UnmarshalStrict(text, into) // as the API server does: upper case counts
			if err = errors.Join(append(strict, err)...); err != nil {
				t.Errorf("%s: %v", file.Name(), err)
			}
		}
	}
	if len(seen) != len(kinds) {
		t.Fatalf("only %v are there", slices.Sorted(maps.Keys(seen)))
	}
	return m
}

// Kubernetes knows every field, and the manifests fit each other.
func TestKubernetes(t *testing.T) {
	m := load(t)
	pod := m.deployment.Spec.Template
	for who, selector := range map[string]map[string]string{
		"Deployment": m.deployment.Spec.Selector.MatchLabels, "Service": m.service.Spec.Selector,
		"PodDisruptionBudget": m.budget.Spec.Selector.MatchLabels,
	} {
		if len(selector) == 0 || !labels.SelectorFromSet(selector).Matches(labels.Set(pod.Labels)) {
			t.Errorf("the selector %v of the %s does not find the pods, which have %v", selector, who, pod.Labels)
		}
	}
	for _, spread := range pod.Spec.TopologySpreadConstraints {
		if !labels.SelectorFromSet(spread.LabelSelector.MatchLabels).Matches(labels.Set(pod.Labels)) {
			t.Errorf("pods are not spread over %s", spread.TopologyKey)
		}
	}
	if got := *m.deployment.Spec.Replicas; got != 3 || *m.budget.Spec.MaxUnavailable != intstr.FromInt32(1) {
		t.Errorf("%d replicas, %v may be away", got, m.budget.Spec.MaxUnavailable)
	}
	if limit, grace := drainTimeout(t, m.config.Data["lockstep.yaml"])+stopMargin, *pod.Spec.TerminationGracePeriodSeconds; time.Duration(grace)*time.Second < limit {
		t.Errorf("pods are killed after %d s, and a drain may take %v", grace, limit)
	}
	c := pod.Spec.Containers[0]
	if len(pod.Spec.Containers) != 1 || !pinned(c.Image) || !slices.Equal(c.Args, []string{"serve"}) {
		t.Errorf("%d containers; %s runs %v", len(pod.Spec.Containers), c.Image, c.Args)
	}
	for name, probe := range map[string]*corev1.Probe{"startup": c.StartupProbe, "liveness": c.LivenessProbe, "readiness": c.ReadinessProbe} {
		want := "/healthz"
		if name == "readiness" {
			want = "/readyz"
		}
		if probe == nil || probe.HTTPGet.Path != want || probe.HTTPGet.Scheme != corev1.URISchemeHTTPS || probe.HTTPGet.Port.StrVal != c.Ports[0].Name {
			t.Errorf("the %s probe is %v", name, probe)
		}
	}
	if at := m.service.Spec.Ports[0].TargetPort.StrVal; at != c.Ports[0].Name {
		t.Errorf("the Service leads to the port %q", at)
	}
	if !slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool {
		return e.Name == "POD_NAME" && e.ValueFrom != nil && e.ValueFrom.FieldRef.FieldPath == "metadata.name"
	}) || !strings.Contains(m.config.Data["lockstep.yaml"], "id: ${POD_NAME}") {
		t.Error("the replica's id is not the pod's name")
	}
	volumes(t, m)
}

// volumes holds that what is mounted exists, and that the files the configuration names are in it.
func volumes(t *testing.T, m manifests) {
	t.Helper()
	spec := m.deployment.Spec.Template.Spec
	files := map[string]bool{}
	for _, mount := range spec.Containers[0].VolumeMounts {
		i := slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })
		if i < 0 {
			t.Errorf("there is no volume %s", mount.Name)
			continue
		}
		switch v := spec.Volumes[i]; {
		case v.ConfigMap != nil:
			if v.ConfigMap.Name != m.config.Name || m.config.Data[mount.SubPath] == "" {
				t.Errorf("%s is not in the ConfigMap", mount.SubPath)
			}
		case v.Secret != nil && v.Secret.SecretName == m.secret.Name:
			for name := range m.secret.StringData {
				files[mount.MountPath+"/"+name] = true
			}
		case v.Secret != nil:
			files[mount.MountPath+"/tls.crt"], files[mount.MountPath+"/tls.key"] = true, true
		}
	}
	for word := range strings.FieldsFuncSeq(m.config.Data["lockstep.yaml"], func(r rune) bool { return strings.ContainsRune(" \n,{}\"", r) }) {
		if strings.HasPrefix(word, "/etc/lockstep/") && !files[word] {
			t.Errorf("the configuration names %s, which is in no Secret", word)
		}
	}
	if len(m.secret.Data) > 0 {
		t.Error("the example of a Secret holds one")
	}
}

// The pods are what Kubernetes calls restricted, and more.
func TestRestricted(t *testing.T) {
	spec := load(t).deployment.Spec.Template.Spec
	p, c := spec.SecurityContext, spec.Containers[0].SecurityContext
	if p == nil || c == nil {
		t.Fatal("there is no security context")
	}
	for what, ok := range map[string]bool{
		"runs as non-root":           *p.RunAsNonRoot && *p.RunAsUser == 65532 && *p.RunAsGroup == 65532,
		"seccomp":                    p.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault,
		"no escalation":              !*c.AllowPrivilegeEscalation && c.Privileged == nil,
		"no capabilities":            slices.Equal(c.Capabilities.Drop, []corev1.Capability{"ALL"}) && len(c.Capabilities.Add) == 0,
		"read-only root":             *c.ReadOnlyRootFilesystem,
		"no token of the cluster":    !*spec.AutomountServiceAccountToken,
		"nothing of the node":        !spec.HostNetwork && !spec.HostPID && !spec.HostIPC,
		"somebody ends the orphaned": *spec.ShareProcessNamespace,
	} {
		if !ok {
			t.Errorf("not so: %s", what)
		}
	}
	for _, v := range spec.Volumes {
		if v.HostPath != nil {
			t.Errorf("%s is a folder of the node", v.Name)
		}
	}
}
