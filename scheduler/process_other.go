//go:build !linux

package scheduler

func bootID() string { return "" }

func processStart(int) int64 { return 0 }
