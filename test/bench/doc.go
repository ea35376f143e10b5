// Package bench measures Lockstep beside the servers that it uses and beside other libraries: the bare
// operations of the lock servers, bsm/redislock, redsync and go-zookeeper's lock. Folder rivals has a program, in a module of its
// own, that measures River and asynq in the same turns.
//
// It is a module of its own, so that users do not download those libraries. Run it with "make bench" in the
// root of the repository; docs/performance.md has the method and the results.
//
// Everything that is compared runs in one process, in turns: a round runs each contestant once, the next round
// begins with another one. Numbers are medians over the rounds, ratios are medians of the ratios within each
// round. With -short all sizes are small: that shows only that it runs.
package bench
