package main

func Example_memory() {
	main()
	// Output:
	// allowed, remaining: 4
	// allowed, remaining: 3
	// allowed, remaining: 2
	// allowed, remaining: 1
	// allowed, remaining: 0
	// denied, retry after: 3m0s
}
