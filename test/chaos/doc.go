// Package chaos runs replicas under load in a real cell, breaks things one after the other, and has
// what happened judged. See CONTRIBUTING.md for how to run it, and docs/reliability.md for what it
// shows.
//
// A run leaves the files of package history in its folder, and can be judged again from them alone:
//
//	go run ./test/chaos/cmd/chaos check DIR
package chaos
