// The first of sums.c in C++, of two types: sums::triangle<unsigned> and sums::triangle<unsigned long>.
//
//	g++ -O2 -o cc-sums sums.cc
//	./cc-sums 1000
#include <cstdio>
#include <cstdlib>

namespace sums {

template <class T> __attribute__((noinline, noclone)) T triangle(T n)
{
	T sum = 0;

	for (T i = 0; i < n; i++)
		sum += i;
	return sum;
}

} // namespace sums

int main(int argc, char **argv)
{
	unsigned long n = argc > 1 ? strtoul(argv[1], NULL, 10) : 10;

	printf("%u %lu\n", sums::triangle<unsigned>(n), sums::triangle<unsigned long>(n));
	return 0;
}
