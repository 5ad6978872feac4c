out.o: a.c \
 b\ c.h $$d.h \#e.h c:\\f.h

a.c:
