# For directories of directories.

.include "prefs.mk"

.PHONY: show-subdir-var clean

show-subdir-var:
	@echo ${${VARNAME}:Q}

clean:
.for dir in ${SUBDIR}
	@cd ${dir} && ${MAKE} clean
.endfor
