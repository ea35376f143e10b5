package zklock

import (
	"context"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// checkTimeout is the session timeout that Check asks for, if none is set.
const checkTimeout = 4 * time.Second

// Check says whether the ensemble can be reached, and whether this login, and no other, may change the nodes
// below the root, as far as that is visible without a namespace. A missing root is fine: the first session
// makes it. Check makes only a session without nodes, which it ends.
func (d *Driver) Check(ctx context.Context) error {
	s := newSession(d, driver.Open{})
	s.names.root = d.options.Root // for errors
	if err := d.begin(ctx, s, "check", checkTimeout, s.readRoot); err != nil {
		return err
	}
	return s.Close(ctx)
}

// readRoot reads the root, unless it is the root of the ensemble.
func (s *session) readRoot() error {
	root := s.names.top
	if root == "" {
		_, _, err := s.conn.Exists("/")
		return err
	}
	there, _, err := s.conn.Exists(root)
	if err != nil || !there {
		return err
	}
	if _, _, err := s.conn.Children(root); err != nil { // nodes of another user cannot be read
		return err
	}
	return s.driver.login.guarded(s.conn, root)
}
