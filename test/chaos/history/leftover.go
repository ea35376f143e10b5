package history

// Leftover is an item of leftovers.json.
type Leftover struct {
	What    string // as arena.Inventory counts it: "fds of r1", "helpers of r1", "commands", "connections of replicas", "redis keys" …
	Before  int
	After   int
	Allowed int // how many more are no leak
}
