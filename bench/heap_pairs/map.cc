// SPDX-License-Identifier: MIT
// map.cc N - words and their counts in a map, a hash table and vectors of strings.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

int main(int argc, char **argv)
{
	const long n = argc > 1 ? std::atol(argv[1]) : 1;
	std::map<std::string, long> sorted;
	std::unordered_map<long, std::vector<std::string>> lists;

	for (long i = 0; i < n; i++) {
		const std::string word = "a word that is long enough to be allocated " + std::to_string(i * 7919 % 30011);

		sorted[word]++;
		auto &list = lists[i % 1009];
		list.push_back(word);
		if (list.size() > 50)
			list.clear();
		if (i % 5 == 0)
			sorted.erase(word);
	}
	std::printf("%zu %zu\n", sorted.size(), lists.size());
}
