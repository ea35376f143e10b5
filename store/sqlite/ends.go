package sqlite

import (
	"sync"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// ends are the sqlkit.Ends of the files that this process has open, by path.
var ends = struct {
	sync.Mutex
	of map[string]*sharedEnds
}{of: map[string]*sharedEnds{}}

type sharedEnds struct {
	sqlkit.Ends
	path  string
	users int
}

// shareEnds returns what all that open a file in this process share, until each has closed it.
func shareEnds(path string) *sharedEnds {
	ends.Lock()
	defer ends.Unlock()
	e := ends.of[path]
	if e == nil {
		e = &sharedEnds{Ends: sqlkit.NewEnds(), path: path}
		ends.of[path] = e
	}
	e.users++
	return e
}

// Close implements io.Closer.
func (e *sharedEnds) Close() error {
	ends.Lock()
	defer ends.Unlock()
	if e.users--; e.users == 0 {
		delete(ends.of, e.path)
	}
	return nil
}
