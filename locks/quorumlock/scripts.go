package quorumlock

import (
	"embed"

	"github.com/redis/go-redis/v9"
)

//go:embed *.lua
var files embed.FS

// script is the script of a file, with what it shares with others in front.
func script(before string, names ...string) *redis.Script {
	text := before
	for _, name := range names {
		part, err := files.ReadFile(name + ".lua")
		if err != nil {
			panic(err) // at the start of any program: no such script
		}
		text += string(part)
	}
	return redis.NewScript(text)
}

var (
	serverScript = script("", "memory", "check_server")
	openScript   = script("", "namespace", "holders", "memory", "open")
	syncScript   = script("", "namespace", "sync")
	joinScript   = script("", "namespace", "holders", "join")
	putScript    = script("", "namespace", "holders", "put")
	voteScript   = script("", "namespace", "holders", "vote")
	commitScript = script("", "namespace", "holders", "commit")
	freeScript   = script("", "namespace", "holders", "free")
	checkScript  = script("", "namespace", "holders", "check")
	evictScript  = script("", "namespace", "holders", "evict")
	listScript   = script("", "namespace", "holders", "list")
	closeScript  = script("", "namespace", "holders", "close")
)

// keysOf names a namespace's keys in the order of namespace.lua. The braces are the hash tag.
func keysOf(namespace string) []string {
	var keys []string
	for _, part := range []string{"state", "sessions", "terms", "holders", "index", "owned", "refused", "evictions"} {
		keys = append(keys, "{lockstep:"+namespace+"}:quorum:"+part)
	}
	return keys
}

// renewOf is the script that renews sessions of the namespace. Each namespace has its own: where it is missing, SCRIPT FLUSH
// has deleted the mark, too, which is then written again.
func renewOf(namespace string) *redis.Script {
	return script("-- for {lockstep:"+namespace+"}\n", "namespace", "holders", "renew")
}

// markOf is a script that does nothing. Where it is cached the namespace has been used since the server started, also if it
// has lost its data since.
func markOf(namespace string) *redis.Script {
	return redis.NewScript("-- lockstep has used {lockstep:" + namespace + "} as one of a quorum in this run\nreturn 1")
}
