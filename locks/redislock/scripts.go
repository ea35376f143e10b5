package redislock

import (
	_ "embed"

	"github.com/redis/go-redis/v9"
)

//go:embed namespace.lua
var namespaceLua string

var (
	//go:embed memory.lua
	memoryLua string
	//go:embed open.lua
	openLua string
	//go:embed renew.lua
	renewLua string
	//go:embed reassert.lua
	reassertLua string
	//go:embed acquire.lua
	acquireLua string
	//go:embed release.lua
	releaseLua string
	//go:embed check.lua
	checkLua string
	//go:embed list.lua
	listLua string
	//go:embed evict.lua
	evictLua string
	//go:embed close.lua
	closeLua string
)

var (
	memoryScript   = redis.NewScript(memoryLua + "return {'ok'}")
	openScript     = redis.NewScript(namespaceLua + memoryLua + openLua)
	reassertScript = redis.NewScript(namespaceLua + reassertLua)
	acquireScript  = redis.NewScript(namespaceLua + acquireLua)
	releaseScript  = redis.NewScript(namespaceLua + releaseLua)
	checkScript    = redis.NewScript(namespaceLua + checkLua)
	listScript     = redis.NewScript(namespaceLua + listLua)
	evictScript    = redis.NewScript(namespaceLua + evictLua)
	closeScript    = redis.NewScript(namespaceLua + closeLua)
)

// keysOf names a namespace's keys in the order of namespace.lua. The braces are the hash tag.
func keysOf(namespace string) []string {
	var keys []string
	for _, part := range []string{"state", "sessions", "terms", "holders", "index", "owned"} {
		keys = append(keys, "{lockstep:"+namespace+"}:"+part)
	}
	return keys
}

// renewOf is the script that renews sessions of the namespace. Each has its own, so that after SCRIPT
// FLUSH each finds it missing, whichever other was called, and restores its mark.
func renewOf(namespace string) *redis.Script {
	return redis.NewScript("-- for {lockstep:" + namespace + "}\n" + namespaceLua + renewLua)
}

// markOf is a script that does nothing. Where it is cached the namespace has been used since the
// server started.
func markOf(namespace string) *redis.Script {
	return redis.NewScript("-- lockstep has used {lockstep:" + namespace + "} in this run\nreturn 1")
}
