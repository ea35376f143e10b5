package zklock

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-zookeeper/zk"
)

// login is the identity of the session at the servers, and the ACL of the nodes that it makes.
type login struct {
	user, password string // empty: no login
}

// loginOf reads "user:password".
func loginOf(auth string) (login, error) {
	user, password, _ := strings.Cut(auth, ":")
	if auth != "" && (user == "" || password == "") {
		return login{}, errors.New("zklock: Auth must have the form user:password")
	}
	return login{user, password}, nil
}

// acl is the ACL of every node. The scheme "auth" stands for the identity of the connection: the server stores
// it with its own hash.
func (l login) acl() []zk.ACL {
	if l.user == "" {
		return zk.WorldACL(zk.PermAll)
	}
	return zk.AuthACL(zk.PermAll)
}

// introduce logs in. The library repeats it on each later connection, before anything else is sent.
func (l login) introduce(conn *zk.Conn) error {
	if l.user == "" {
		return nil
	}
	return conn.AddAuth("digest", []byte(l.user+":"+l.password))
}

// guarded fails if every client can change one of the nodes, as when they were made before there was a login.
// They may be readable by all.
func (l login) guarded(conn *zk.Conn, paths ...string) error {
	if l.user == "" {
		return nil
	}
	for _, path := range paths {
		acl, _, err := conn.GetACL(path)
		if err != nil {
			return fmt.Errorf("read the ACL of %s: %w", path, err)
		}
		for _, entry := range acl {
			if entry.Scheme == "world" && entry.Perms&^zk.PermRead != 0 {
				return fmt.Errorf("%w: every client can change %s, perhaps it was made before there was a login; stop all replicas and delete it, or set its ACL and those below: setAcl -R %[2]s auth::cdrwa", errOpen, path)
			}
		}
	}
	return nil
}

var errOpen = errors.New("the nodes are not protected")

// refused explains the error of a server for a missing permission.
func (l login) refused(names names, err error) error {
	switch {
	case errors.Is(err, zk.ErrNoAuth) && l.user == "":
		return fmt.Errorf("the nodes below %s belong to a user of ZooKeeper, and no user is given: %w", names.root, err)
	case errors.Is(err, zk.ErrNoAuth):
		return fmt.Errorf("the nodes below %s belong to another user of ZooKeeper than %q, or to %[2]q with another password: %w", names.root, l.user, err)
	case errors.Is(err, zk.ErrAuthFailed):
		return fmt.Errorf("the server does not let %q log in: %w", l.user, err)
	}
	return err
}
