// Loads the library that it is given, and calls its function later.
#include <dlfcn.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
	void *library = dlopen(argv[1], RTLD_NOW);
	int (*later)(int) = (int (*)(int))dlsym(library, "later");
	int wrong = later(atoi(argv[2])) < 0;
	return dlclose(library) + wrong;
}
