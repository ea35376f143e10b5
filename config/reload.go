package config

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// reloadable are the keys of the main file that a replica loads while it runs. All others need a restart.
var reloadable = []string{"version", "include", "defaults", "pools", "jobs", "calendars", "ping"}

// settingsOf are the values that need a restart, by the paths of their keys. A value is a hash: it may be a secret.
func settingsOf(root *yaml.Node) map[string]string {
	all := map[string]string{}
	if root = deref(root); root.Kind != yaml.MappingNode {
		return all
	}
	for i := 0; i+1 < len(root.Content); i += 2 { // the jobs, of which there may be 100,000, are not walked through
		if key := root.Content[i].Value; !slices.Contains(reloadable, key) && !strings.HasPrefix(key, "x-") {
			walk(key, root.Content[i+1], all)
		}
	}
	return all
}

func walk(path string, n *yaml.Node, into map[string]string) {
	n = deref(n)
	if n.Kind != yaml.MappingNode {
		into[path] = fmt.Sprintf("%x", sha256.Sum256([]byte(textOf(n))))
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		walk(strings.TrimPrefix(path+"."+n.Content[i].Value, "."), n.Content[i+1], into)
	}
}

// textOf is a value without its place, style and comments.
func textOf(n *yaml.Node) string {
	n = deref(n)
	words := []string{n.ShortTag(), n.Value}
	for _, child := range n.Content {
		words = append(words, textOf(child))
	}
	return fmt.Sprintf("%q", words)
}

// NeedsRestart are the paths of the keys, sorted, whose values c has otherwise than before, and that a replica that runs with before
// does not load.
func (c *Config) NeedsRestart(before *Config) (paths []string) {
	for path, value := range c.Settings {
		if before.Settings[path] != value {
			paths = append(paths, path)
		}
	}
	for path := range before.Settings {
		if _, has := c.Settings[path]; !has {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}
