package zklock

import (
	"net/url"
	"strings"
)

// names are the paths of one namespace.
type names struct{ top, root, locks, queues, sessions, notices string }

func namesOf(top, namespace string) names {
	base := top + "/" + escape(namespace)
	return names{top, base, base + "/locks", base + "/queues", base + "/sessions", base + "/notices"}
}

// guarded are the nodes through which another user could reach the namespace.
func (n names) guarded() []string {
	if n.top == "" { // the root of the ensemble is open to all
		return append([]string{n.root}, n.parents()...)
	}
	return append([]string{n.top, n.root}, n.parents()...)
}

// parents are the nodes that all others are made below.
func (n names) parents() []string { return []string{n.locks, n.queues, n.sessions, n.notices} }

// lock is the container of a key; held below it exists while one holds the key alone.
func (n names) lock(key string) string { return n.locks + "/" + escape(key) }
func (n names) held(key string) string { return n.lock(key) + "/held" }

// mark is the node that exists beside held for one grant.
func (n names) mark(key, id string) string { return n.lock(key) + "/" + id }

// queue is the container of those that wait for a key, and of those that hold it together.
func (n names) queue(key string) string { return n.queues + "/" + escape(key) }

// session is the node of a session.
func (n names) session(id string) string { return n.sessions + "/" + id }

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
