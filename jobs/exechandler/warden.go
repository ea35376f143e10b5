package exechandler

import "sync/atomic"

// wardens says that commands are started by a warden.
var wardens atomic.Bool

// Warden ends commands with this program, however it ends. Call it first in main:
//
//	func main() {
//		if exechandler.Warden() {
//			return
//		}
//		…
//	}
//
// From then on handlers start their commands by a small helper process, the warden: this program once more,
// with an empty environment. It starts with the first command and ends with the program. It ends all its
// commands and their descendants at once when the program is killed, also by SIGKILL, and at the deadline of
// the attempt (bound.Bound) when the program is frozen. In the helper process Warden does this work and returns
// true when it is done; everywhere else it returns false at once.
//
// A program that does not call it runs commands without that guarantee, as do all programs where [CanWarden]
// returns false.
func Warden() bool { return beWarden() }
