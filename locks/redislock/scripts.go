package redislock

import (
	"embed"

	"github.com/redis/go-redis/v9"
)

//go:embed *.lua
var files embed.FS

// lua is the text of scripts, one after the other.
func lua(names ...string) (text string) {
	for _, name := range names {
		script, _ := files.ReadFile(name + ".lua") // each is there: the tests run all
		text += string(script)
	}
	return text
}

var (
	memoryScript   = redis.NewScript(lua("memory") + "return {'ok'}")
	openScript     = redis.NewScript(lua("namespace", "queue", "memory", "open"))
	reassertScript = redis.NewScript(lua("namespace", "queue", "reassert"))
	acquireScript  = redis.NewScript(lua("namespace", "queue", "acquire"))
	releaseScript  = redis.NewScript(lua("namespace", "queue", "release"))
	checkScript    = redis.NewScript(lua("namespace", "queue", "check"))
	listScript     = redis.NewScript(lua("namespace", "queue", "list"))
	evictScript    = redis.NewScript(lua("namespace", "queue", "evict"))
	lookScript     = redis.NewScript(lua("namespace", "queue", "look"))
	abandonScript  = redis.NewScript(lua("namespace", "queue", "abandon"))
	closeScript    = redis.NewScript(lua("namespace", "queue", "close"))
)

// keysOf names a namespace's keys in the order of namespace.lua. The braces are the hash tag.
func keysOf(namespace string) []string {
	var keys []string
	for _, part := range []string{"state", "sessions", "terms", "holders", "index", "owned", "queue", "places", "abandoned"} {
		keys = append(keys, "{lockstep:"+namespace+"}:"+part)
	}
	return keys
}

// renewOf is the script that renews sessions of the namespace. Each has its own, so that after SCRIPT
// FLUSH each finds it missing, whichever other was called, and restores its mark.
func renewOf(namespace string) *redis.Script {
	return redis.NewScript("-- for {lockstep:" + namespace + "}\n" + lua("namespace", "queue", "renew"))
}

// markOf is a script that does nothing. Where it is cached the namespace has been used since the
// server started.
func markOf(namespace string) *redis.Script {
	return redis.NewScript("-- lockstep has used {lockstep:" + namespace + "} in this run\nreturn 1")
}
