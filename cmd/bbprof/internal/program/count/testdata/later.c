// A library's function; with -DOTHER, other code at the same place.
int later(int n)
{
	int s = 0;
	for (volatile int i = 0; i < n; i++) {
		s += i;
#ifdef OTHER
		s ^= i;
#endif
	}
	return s;
}
