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
		script, err := files.ReadFile(name + ".lua")
		if err != nil {
			panic(err) // at the start of any program: no such script
		}
		text += string(script)
	}
	return text
}

// acquireWith is the text of the script that releases and grants, with the id of a proof; without one if it is "".
func acquireWith(id string) string {
	proof := "nil"
	if id != "" {
		proof = "'" + id + "'"
	}
	return "local proof = " + proof + "\nlocal function gone() return ARGV[7] end\n" + lua("acquire_one", "release_one", "acquire_fast", "release_fast", "namespace", "queue", "acquire")
}

// goneArg is the index of ARGV[7] in the arguments.
const goneArg = 6

// script is one that acts without a proof.
func script(names ...string) *redis.Script {
	return redis.NewScript("local proof, gone\n" + lua(names...))
}

var (
	memoryScript   = redis.NewScript(lua("memory") + "return {'ok'}")
	openScript     = script("namespace", "queue", "memory", "open")
	reassertScript = script("namespace", "queue", "reassert")
	acquireScript  = redis.NewScript(acquireWith(""))
	checkScript    = script("namespace", "queue", "check")
	listScript     = script("namespace", "queue", "list")
	lookScript     = script("namespace", "queue", "look")
	abandonScript  = script("namespace", "queue", "abandon")
	closeScript    = script("namespace", "queue", "close")
)

// evictText is the text of a script that is never sent twice, and so not by its hash.
var evictText = "local proof, gone\n" + lua("namespace", "queue", "evict")

// keysOf names a namespace's keys in the order of namespace.lua. The braces are the hash tag.
func keysOf(namespace string) []string {
	var keys []string
	for _, part := range []string{"state", "sessions", "terms", "holders", "index", "queue", "places", "abandoned"} {
		keys = append(keys, "{lockstep:"+namespace+"}:"+part)
	}
	return keys
}

// renewOf is the script that renews sessions of the namespace. Each has its own, so that after SCRIPT
// FLUSH each finds it missing, whichever other was called, and restores its mark.
func renewOf(namespace string) *redis.Script {
	return redis.NewScript("-- for {lockstep:" + namespace + "}\nlocal proof, gone\n" + lua("namespace", "queue", "renew"))
}

// markOf is a script that does nothing. Where it is cached the namespace has been used since the
// server started.
func markOf(namespace string) *redis.Script {
	return redis.NewScript("-- lockstep has used {lockstep:" + namespace + "} in this run\nreturn 1")
}
