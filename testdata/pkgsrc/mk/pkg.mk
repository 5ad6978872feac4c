# For packages: what they are, and how they become binary packages.

.include "prefs.mk"

PKGPATH:=	${.CURDIR:H:T}/${.CURDIR:T}
CATEGORIES?=	${.CURDIR:H:T}
MAINTAINER?=	nobody@example.org
COMMENT?=	${PKGNAME}
USE_DESTDIR?=	user-destdir
.if defined(WRKOBJDIR)
WRKDIR=		${WRKOBJDIR}/${PKGPATH}${PYTHON_VERSION_REQD:D-${PYTHON_VERSION_REQD}}
.else
WRKDIR=		${.CURDIR}/work
.endif
DESTDIR=	${WRKDIR}/.destdir
WRKSRC=		${WRKDIR}/src
WRKLOG?=	${WRKDIR}/.work.log
STAGE_PKGFILE?=	${WRKDIR}/.packages/${PKGNAME}${PKG_SUFX}
OWN_FILE=	share/${PKGNAME:C/-[^-]*$//}.txt
# SYMLINKS and HARDLINKS are FILE:TARGET.
ALL_FILES=	${OWN_FILE} ${FILES} ${HARDLINKS:C/:.*//} ${SYMLINKS:C/:.*//}
WRITTEN_FILES=	${OWN_FILE} ${FILES}
MASTER_SITES?=
MASTER_SITE_OVERRIDE?=
_ALLFILES=	${DISTFILES:@file@${DIST_SUBDIR}${DIST_SUBDIR:D/}${file}@}

BUILD_DEFS+=	FETCH_SITE
do-configure?=	:
do-build?=	:

# A package's own build.
.if !empty(USE_TOOLS:U:Mgmake)
GMAKE?=		gmake
MAKE_PROGRAM=	${GMAKE}
.else
MAKE_PROGRAM?=	${MAKE}
.endif
.if ${MAKE_JOBS_SAFE:Uyes:tl} != "no" && defined(MAKE_JOBS)
_MAKE_JOBS=	-j${MAKE_JOBS}
.endif
HOLD?=			${WRKLOG:H}
BUILD_MAKE_CMD=	${SETENV} HOLD=${HOLD:Q} ${MAKE_PROGRAM} ${_MAKE_JOBS} -f ${MAKE_FILE}
SETENV?=	env

.PHONY: pbulk-index pbulk-index-item fetch checksum configure all stage-install stage-package-create clean show-var \
	create-usergroup pbulk-save-wrkdir

show-var:
	@echo ${${VARNAME}:Q}

.if defined(MULTI_LIST)
pbulk-index:
	@set -e; for version in ${MULTI_LIST}; do \
		${MULTI_VAR}=$$version ${MAKE} pbulk-index-item; done
.else
pbulk-index: pbulk-index-item
.endif

.if defined(PBULK_CACHE_DIRECTORY)
SCANNED_FILES=	${.MAKE.MAKEFILES:N${PBULK_CACHE_DIRECTORY}/*}
.else
SCANNED_FILES=	${.MAKE.MAKEFILES}
.endif

pbulk-index-item:
	@echo PKGNAME=${PKGNAME:Q}
	@echo ALL_DEPENDS=${DEPENDS:Q}
	@echo PKG_SKIP_REASON=${PKG_SKIP_REASON:Q}
	@echo PKG_FAIL_REASON=${PKG_FAIL_REASON:Q}
	@echo NO_BIN_ON_FTP=${NO_BIN_ON_FTP:Q}
	@echo RESTRICTED=${RESTRICTED:Q}
	@echo CATEGORIES=${CATEGORIES:Q}
	@echo MAINTAINER=${MAINTAINER:Q}
	@echo USE_DESTDIR=${USE_DESTDIR:Q}
	@echo BOOTSTRAP_PKG=${BOOTSTRAP_PKG}
	@echo USERGROUP_PHASE=${USERGROUP_PHASE:Q}
	@echo SCAN_DEPENDS=${SCANNED_FILES:Q}
.if defined(MULTI_LIST)
	@echo MULTI_VERSION=" ${MULTI_VAR}=${${MULTI_VAR}}"
.endif

# Where there is nobody to fetch it from, it is made.
fetch:
.for file in ${_ALLFILES}
.if !exists(${DISTDIR}/${file})
.if defined(BATCH) && !empty(INTERACTIVE_STAGE:U:Mfetch) && empty(IGNORE_INTERACTIVE_FETCH:U:M[yY][eE][sS])
	@echo "${file} has to be fetched by a user"; exit 1
.endif
	@mkdir -p ${DISTDIR}/${file:H} && test -w ${DISTDIR}/${file:H} || { echo "nothing may be written in ${DISTDIR}"; exit 1; }
.if empty(MASTER_SITES)
	@echo ${file} >${DISTDIR}/.${file}.$$$$ && mv ${DISTDIR}/.${file}.$$$$ ${DISTDIR}/${file}
.else
	@for site in ${MASTER_SITE_OVERRIDE:=${DIST_SUBDIR}${DIST_SUBDIR:D/}} ${MASTER_SITES}; do \
		url=$${site}${file:T}; ${FETCH_CMD} ${DISTDIR}/${file} $$url || continue; \
		test -z "${POST_FETCH_HOOK}" || (cd ${DISTDIR} && ${POST_FETCH_HOOK} ./${file} $$url); \
		exit 0; done; echo "${file} cannot be fetched"; exit 1
.endif
.endif
.endfor

checksum: fetch
.for file in ${_ALLFILES}
.if empty(MASTER_SITES)
	@test "$$(cat ${DISTDIR}/${file})" = ${file} || { echo "the checksum of ${file} is another"; exit 1; }
.else
	@sum=$$(sha512sum <${DISTDIR}/${file}) && grep -qxF "SHA512 (${file}) = $${sum%% *}" distinfo || \
		{ echo "the checksum of ${file} is another"; exit 1; }
.endif
.endfor

# What is done is not done again for what is always out of date.
.if !exists(${WRKDIR}/.extracted)
${WRKDIR}/.extracted: checksum
.endif
${WRKDIR}/.extracted:
	@mkdir -p ${WRKSRC} && : >$@

${WRKDIR}/.configured: ${WRKDIR}/.extracted
	@for file in ${NEEDS_FILES}; do \
		test -f ${LOCALBASE}/$$file || { echo "$$file is not there"; exit 1; }; done
	@cd ${WRKSRC} && ${do-configure}
	@: >$@

${WRKDIR}/.built: ${WRKDIR}/.configured
	@echo "building ${PKGNAME}" | tee -a ${WRKLOG}
	@cd ${WRKSRC} && ${do-build}
	@: >$@

${WRKDIR}/.installed: ${WRKDIR}/.built
.for file in ${WRITTEN_FILES}
	@mkdir -p ${DESTDIR}${LOCALBASE}/${file:H} && echo ${PKGNAME} ${file} >${DESTDIR}${LOCALBASE}/${file}
.endfor
.for link in ${HARDLINKS}
	@cd ${DESTDIR}${LOCALBASE} && mkdir -p ${link:C/:.*//:H} && ln -f ${link:C/.*://} ${link:C/:.*//}
.endfor
.for link in ${SYMLINKS}
	@cd ${DESTDIR}${LOCALBASE} && mkdir -p ${link:C/:.*//:H} && ln -sf ${link:C/.*://} ${link:C/:.*//}
.endfor
	@: >$@

configure: ${WRKDIR}/.configured
all: ${WRKDIR}/.built
stage-install: ${WRKDIR}/.installed

# What it needs is what is installed of it.
META=	${WRKDIR}/.meta
stage-package-create: ${WRKDIR}/.installed
	@rm -rf ${META} && mkdir -p ${META} ${STAGE_PKGFILE:H}
	@echo ${COMMENT:Q} >${META}/+COMMENT
	@printf '%s\n' ${COMMENT:Q} "" "It is there for tests." >${META}/+DESC
	@printf '%s\n' "PKGPATH=${PKGPATH}" "OPSYS=${OPSYS}" "CATEGORIES=${CATEGORIES}" "MAINTAINER=${MAINTAINER}" \
		"NO_BIN_ON_FTP=${NO_BIN_ON_FTP}" "RESTRICTED=${RESTRICTED}" >${META}/+BUILD_INFO
	@cd ${TOPDIR} && grep '[$$]NetBSD' ${PKGPATH}/Makefile /dev/null | sed 's/:# */: /' >${META}/+BUILD_VERSION
	@{ echo "@name ${PKGNAME}"; echo "@cwd ${LOCALBASE}"; \
	for needed in ${DEPENDS:C/:.*//:@it@${it:Q}@}; do \
		name=$$(PKG_DBDIR=${PKG_DBDIR} ${PKG_INFO} -E "$$needed") || { echo "$$needed is not installed" >&2; exit 1; }; \
		echo "@blddep $$name"; echo "@pkgdep $$needed"; done; \
	for dir in ${OWN_DIRS}; do echo "@pkgdir $$dir"; done; \
	for file in ${ALL_FILES}; do \
		echo "$$file"; it=${DESTDIR}${LOCALBASE}/$$file; \
		if [ -h "$$it" ]; then echo "@comment Symlink:$$(readlink "$$it")"; continue; fi; \
		sum=$$(md5sum <"$$it") && echo "@comment MD5:$${sum%% *}" || exit 1; \
	done; } >${META}/+CONTENTS
.if defined(INSTALL_SCRIPT)
	@printf '%s\n' '#!/bin/sh' ${INSTALL_SCRIPT:Q} >${META}/+INSTALL
.endif
	@tar -czf ${STAGE_PKGFILE} -C ${META} +CONTENTS +COMMENT +DESC ${INSTALL_SCRIPT:D+INSTALL} +BUILD_VERSION +BUILD_INFO \
		-C ${DESTDIR}${LOCALBASE} ${ALL_FILES}

create-usergroup:
	@echo "would make users"

clean:
	@rm -rf ${WRKDIR}

pbulk-save-wrkdir:
	@test ! -d ${WRKDIR} || tar -czf ${INTO} -C ${WRKDIR} .
