package redfish

// QuirkWords are the words of all rows of the table of quirks, for the test that every row is tested.
func QuirkWords() (words [][]string) {
	for _, q := range quirks {
		words = append(words, q.words)
	}
	return words
}
