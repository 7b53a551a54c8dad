package main

func record(string) error { return nil }
