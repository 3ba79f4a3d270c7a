//go:build !amd64

package main

func foreign(string) bool { return false }
