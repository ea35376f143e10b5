package zklock

import (
	"net/url"
	"strings"
)

// names are the paths of one namespace.
type names struct{ top, root, locks, sessions string }

func namesOf(top, namespace string) names {
	base := top + "/" + escape(namespace)
	return names{top, base, base + "/locks", base + "/sessions"}
}

// guarded are the nodes through which another user could reach the namespace.
func (n names) guarded() []string {
	if n.top == "" { // the root of the ensemble is open to all
		return []string{n.root, n.locks, n.sessions}
	}
	return []string{n.top, n.root, n.locks, n.sessions}
}

// lock is the container of a key; held below it exists while the key is held.
func (n names) lock(key string) string { return n.locks + "/" + escape(key) }
func (n names) held(key string) string { return n.lock(key) + "/held" }

var escaper = strings.NewReplacer("%", "%25", "/", "%2F")

// escape makes one node name of s; unescape is its inverse. ZooKeeper forbids "", "." and "..".
func escape(s string) string {
	switch s {
	case "":
		return "%"
	case ".", "..":
		return strings.ReplaceAll(s, ".", "%2E")
	}
	return escaper.Replace(s)
}

// unescape reports false for names that escape does not make.
func unescape(name string) (string, bool) {
	s, err := url.PathUnescape(name)
	return s, err == nil && escape(s) == name
}
